//! Flags that choose a card's model and its settings.

use std::path::Path;

use anyhow::bail;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use hamlyn_host::CardOptions;
use hamlyn_host::catalogue::{self, Choice, MODELS, Model, Offered};

use super::fault;

/// The flag that chooses a model.
#[derive(Debug, Clone, Args)]
pub(super) struct ModelFlag {
    /// Model of the card
    #[arg(long, value_name = "NAME", value_parser = model_parser(), default_value = catalogue::default().name)]
    #[arg(overrides_with = "model")]
    pub(super) model: &'static Model,
}

/// The flag that chooses one model for all cards, or one for each.
#[derive(Debug, Clone, Args)]
pub(super) struct ModelsFlag {
    /// Model of the cards: one NAME for all, or one for each, starting with the first card. All
    /// must use one protocol
    #[arg(long = "model", value_name = "NAME", value_parser = model_parser(), value_delimiter = ',')]
    #[arg(default_value = catalogue::default().name, overrides_with = "models")]
    pub(super) models: Vec<&'static Model>,
}

impl ModelsFlag {
    /// Returns the model of all cards, for commands that support only one.
    pub(super) fn one(&self) -> anyhow::Result<&'static Model> {
        match self.models[..] {
            [model] => Ok(model),
            _ => bail!("--model names {} models, and this is about one", self.models.len()),
        }
    }
}

fn model_parser() -> ValueParser {
    let names = MODELS.iter().map(|model| PossibleValue::new(model.name).help(model.about));
    PossibleValuesParser::new(names).try_map(|name| catalogue::find(&name)).into()
}

/// The flags for a card's properties, wherever it runs.
#[derive(Debug, Clone, Args)]
pub(super) struct CardFlags {
    #[command(flatten)]
    choice: ChoiceFlags,
    /// Largest amount of guest memory that the card maps, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = CardOptions::GUEST_MEMORY)]
    guest_memory: u64,
    #[command(flatten)]
    faults: FaultFlags,
}

impl CardFlags {
    pub(super) fn options(self) -> CardOptions {
        CardOptions { choice: self.choice.0, guest_memory: self.guest_memory, faults: self.faults.rules() }
    }
}

/// The flags for cards that misbehave by rule from the start.
#[derive(Debug, Clone, Args)]
struct FaultFlags {
    /// Misbehave by the rules in this file, from the start: see hamlyn fault
    #[arg(long, value_name = "FILE", value_parser = rules_in)]
    faults: Option<String>,
    /// Seed of the rules
    #[arg(long, value_name = "N", default_value_t = 0, requires = "faults")]
    fault_seed: u64,
}

impl FaultFlags {
    fn rules(self) -> Option<(String, u64)> {
        Some((self.faults?, self.fault_seed))
    }
}

fn rules_in(file: &str) -> Result<String, String> {
    fault::read(Path::new(file)).map_err(|error| format!("{error:#}"))
}

/// The flags for the properties of several cards.
#[derive(Debug, Clone, Args)]
pub(super) struct CardsFlags {
    #[command(flatten)]
    choices: ChoicesFlags,
    /// Largest amount of guest memory that each card maps, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = CardOptions::GUEST_MEMORY)]
    guest_memory: u64,
    #[command(flatten)]
    faults: FaultFlags,
}

impl CardsFlags {
    /// Returns the options of each of `cards` cards.
    pub(super) fn options(self, cards: usize) -> anyhow::Result<Vec<CardOptions>> {
        let choices = catalogue::each(&self.choices.0, cards)?;
        let (guest_memory, faults) = (self.guest_memory, self.faults.rules());
        let card = |choice| CardOptions { choice, guest_memory, faults: faults.clone() };
        Ok(choices.into_iter().map(card).collect())
    }
}

/// A model, and a flag for each setting that any model has.
#[derive(Debug, Clone)]
struct ChoiceFlags(Choice);

/// Several models, and a flag for each setting that any model has. A flag has one value for all
/// cards, or one for each.
#[derive(Debug, Clone)]
struct ChoicesFlags(Vec<Choice>);

impl Args for ChoiceFlags {
    fn augment_args(command: Command) -> Command {
        ModelFlag::augment_args(command).args(catalogue::settings(MODELS).iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ChoiceFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let model = ModelFlag::from_arg_matches(matches)?.model;
        let choices = choices(&[model], &catalogue::settings(MODELS), matches)?;
        Ok(Self(choices.into_iter().next().unwrap_or(Choice::of(model))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ChoicesFlags {
    fn augment_args(command: Command) -> Command {
        let list = |offered| flag(offered).value_delimiter(',');
        ModelsFlag::augment_args(command).args(catalogue::settings(MODELS).iter().map(list))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ChoicesFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut models = ModelsFlag::from_arg_matches(matches)?.models;
        let offered = catalogue::settings(MODELS);
        let values =
            |offered: &Offered| matches.get_many::<u32>(offered.setting.name).map_or(1, |all| all.len());
        if let ([model], Some(most)) = (&models[..], offered.iter().map(values).max()) {
            models = vec![*model; most];
        }
        choices(&models, &offered, matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns a setting's flag. The default depends on the model, so clap gets no default value.
fn flag(offered: &Offered) -> Arg {
    let setting = offered.setting;
    let defaults: Vec<String> = match &offered.defaults[..] {
        [(_, default)] if MODELS.len() == 1 => vec![default.to_string()],
        several => several.iter().map(|(model, default)| format!("{default} ({model})")).collect(),
    };
    Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.unit)
        .value_parser(value_parser!(u32))
        .help(format!("{} [default: {}]", setting.about, defaults.join(", ")))
}

/// Returns the settings of cards of some models. Fails if a flag belongs only to other models.
fn choices(
    models: &[&'static Model],
    offered: &[Offered],
    matches: &ArgMatches,
) -> Result<Vec<Choice>, clap::Error> {
    let mut choices: Vec<Choice> = models.iter().copied().map(Choice::of).collect();
    for Offered { setting, defaults } in offered {
        let Some(values) = matches.get_many::<u32>(setting.name) else { continue };
        let values: Vec<u32> = values.copied().collect();
        let values = catalogue::each(&values, choices.len()).map_err(|error| {
            clap::Error::raw(ErrorKind::WrongNumberOfValues, format!("--{}: {error}\n", setting.name))
        })?;
        let set = |(choice, value): (&mut Choice, u32)| choice.set(setting.name, value).ok();
        let taken = choices.iter_mut().zip(values).filter_map(set).count();
        if taken == 0 {
            let owners: Vec<&str> = defaults.iter().map(|(model, _)| *model).collect();
            let models: Vec<&str> = models.iter().map(|model| model.name).collect();
            let (flag, models, owners) = (setting.name, models.join(", "), owners.join(", "));
            let reason = format!("model {models} has no flag --{flag}; these have: {owners}\n");
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, reason));
        }
    }
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use hamlyn_host::catalogue::Setting;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        card: CardFlags,
    }

    fn parse(flags: &[&str]) -> Result<CardOptions, String> {
        let words = ["card"].iter().chain(flags);
        Program::try_parse_from(words).map(|it| it.card.options()).map_err(|error| error.to_string())
    }

    #[test]
    fn model_and_settings_are_parsed() {
        for model in MODELS {
            assert_eq!(parse(&["--model", model.name]).unwrap().choice.model().name, model.name);
        }
        let options = parse(&["--packet-size", "1024", "--guest-memory", "4096"]).unwrap();
        assert_eq!((options.choice.model().name, options.guest_memory), ("hamlyn", 4096));
        assert_eq!(options.choice.get("packet-size"), Ok(1024));
        assert_eq!(options.choice.get("termini"), Choice::of(catalogue::default()).get("termini"));
    }

    #[test]
    fn unknown_model_error_lists_all_models() {
        let error = parse(&["--model", "x"]).unwrap_err();
        assert!(error.contains("invalid value 'x' for '--model <NAME>'"), "{error}");
        assert!(MODELS.iter().all(|model| error.contains(model.name)), "{error}");
        assert!(parse(&["--packet-size", "much"]).unwrap_err().contains("invalid value 'much'"));
    }

    #[derive(Debug, Parser)]
    struct Several {
        #[command(flatten)]
        cards: CardsFlags,
    }

    #[test]
    fn setting_has_one_value_or_one_per_card() {
        let parse = |flags: &[&str], cards| {
            let parsed = Several::try_parse_from(["cards"].iter().chain(flags));
            let options = parsed.map_err(|error| error.to_string())?.cards.options(cards);
            let options = options.map_err(|error| error.to_string())?;
            let get = |name| options.iter().map(|card| card.choice.get(name).unwrap()).collect::<Vec<_>>();
            Ok::<_, String>((get("packet-size"), get("termini")))
        };
        let (sizes, termini) = parse(&["--packet-size=1024,2048", "--termini=16"], 2).unwrap();
        assert_eq!((sizes, termini), (vec![1024, 2048], vec![16, 16]));
        assert_eq!(parse(&["--packet-size=1024"], 3).unwrap().0, [1024; 3]);
        let error = parse(&["--packet-size=1024,2048", "--termini=1,2,3"], 3).unwrap_err();
        assert!(error.contains("--packet-size: 2 values are given for 3 cards"), "{error}");
        assert!(parse(&["--termini=1,2"], 3).unwrap_err().contains("2 values are given for 3 cards"));
    }

    static OTHER: Model = Model {
        name: "other",
        paper: "none",
        about: "For tests",
        settings: &[Setting { name: "rings", unit: "N", about: "Its rings", default: 2 }],
        bursts: None,
        make: |_| Err("it cannot be made".into()),
    };

    #[test]
    fn a_flag_of_another_model_is_refused() {
        let offered = catalogue::settings(&[catalogue::default(), &OTHER]);
        let command = Command::new("card").args(offered.iter().map(flag));
        let refused = |model, words: &[&str]| {
            let matches = command.clone().try_get_matches_from([&["card"], words].concat()).unwrap();
            choices(&[model], &offered, &matches).err().map(|error| error.to_string())
        };
        let said = refused(&OTHER, &["--termini", "3"]).unwrap();
        assert_eq!(said, "error: model other has no flag --termini; these have: hamlyn\n");
        let said = refused(catalogue::default(), &["--rings", "3"]).unwrap();
        assert_eq!(said, "error: model hamlyn has no flag --rings; these have: other\n");
        assert_eq!(refused(&OTHER, &["--rings", "3"]), None);
        assert_eq!(refused(catalogue::default(), &["--termini", "3"]), None);
    }
}
