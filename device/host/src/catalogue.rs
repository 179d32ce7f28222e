//! The models of the family. This is the only place on the host side that names a card.

use hamlyn_card::card::Identity;
use hamlyn_card::model;
pub use hamlyn_card::model::{Choice, Model, NoSetting, Setting};
use hamlyn_card::packet::PacketField;
use hamlyn_card_clan as clan;
use hamlyn_card_dart as dart;
use hamlyn_card_echo as echo;
use hamlyn_card_hamlyn as hamlyn;
use hamlyn_card_shrimp as shrimp;
pub use hamlyn_fabric::Protocol;
use hamlyn_switch::bursts::Bursts;
use thiserror::Error;

/// All models. The first one is the default.
pub static MODELS: &[&Model] = &[&hamlyn::MODEL, &shrimp::MODEL, &clan::MODEL, &dart::MODEL, &echo::MODEL];

/// An unknown model name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("model {0} does not exist; the models are: {names}", names = list(MODELS.iter().map(|model| model.name)))]
pub struct NoModel(pub String);

/// Returns the model with this name.
pub fn find(name: &str) -> Result<&'static Model, NoModel> {
    let found = MODELS.iter().find(|model| model.name == name);
    found.copied().ok_or_else(|| NoModel(name.to_owned()))
}

/// Returns the default model.
pub fn default() -> &'static Model {
    MODELS[0]
}

/// Returns the model of a card.
pub fn model_of(card: &Identity) -> Option<&'static Model> {
    let is_same = |model: &&&'static Model| {
        let identity = Choice::of(model).make().ok().map(|card| card.identity());
        identity.is_some_and(|other| (other.vendor, other.device) == (card.vendor, card.device))
    };
    MODELS.iter().find(is_same).copied()
}

/// Whether cards of the model have a second function, for doorbells.
pub fn has_doorbells(model: &'static Model) -> bool {
    Choice::of(model).make().is_ok_and(|card| !card.identity().posted.is_empty())
}

/// Returns how many bytes of address space a port must reserve to hot-plug a card of the model: for
/// prefetchable 64-bit BARs, and for the others, over all functions. The reserved space may begin
/// anywhere, but the largest BAR must be aligned to its size. So the result counts that BAR twice.
pub fn reserve(model: &'static Model) -> Result<[u64; 2], model::MakeError> {
    let identity = Choice::of(model).make()?.identity();
    let posted =
        identity.posted.iter().flat_map(|posted| identity.bars.iter().filter(|bar| bar.index == posted.bar));
    let all: Vec<_> = identity.bars.iter().chain(posted).collect();
    Ok([true, false].map(|wide| {
        let sizes = all.iter().filter(|bar| bar.wide == wide).map(|bar| bar.size);
        let largest = sizes.clone().max().unwrap_or(0);
        sizes.sum::<u64>() + largest
    }))
}

/// Returns the protocol of a model's packets, and the fields of their headers. A model that can
/// make no card has none.
pub fn packets(model: &'static Model) -> Option<(Protocol, &'static [PacketField])> {
    let card = Choice::of(model).make().ok()?;
    Some((Protocol::parse(card.identity().protocol).ok()?, card.packet_fields()))
}

/// Returns the functions that split and join packets, of the models that have them.
pub fn bursts() -> Vec<Bursts> {
    let of = |model: &&'static Model| {
        let model::Bursts { cut, join } = model.bursts?;
        Some(Bursts { protocol: packets(model)?.0, cut, join })
    };
    MODELS.iter().filter_map(of).collect()
}

/// Whether cards of the model watch their machine's stores to memory.
pub fn is_snooped(model: &'static Model) -> bool {
    Choice::of(model).make().is_ok_and(|card| card.identity().snooped.is_some())
}

/// Returns one of `all` for each card, or the only one for every card.
pub fn each<T: Clone>(all: &[T], cards: usize) -> Result<Vec<T>, NotEach> {
    if all.len() != 1 && all.len() != cards {
        return Err(NotEach { named: all.len(), cards });
    }
    Ok(all.iter().cycle().take(cards).cloned().collect())
}

/// The number of values matches neither 1 nor the number of cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{named} values are given for {cards} cards (must be 1 or {cards})")]
pub struct NotEach {
    named: usize,
    cards: usize,
}

/// Checks that cards of these models use the same protocol, as all cards of a fabric must.
pub fn check_together(models: &[&'static Model]) -> Result<(), Strangers> {
    let protocol = |model| Choice::of(model).make().ok().map(|card| card.identity().protocol);
    let others = models.windows(2).filter(|pair| !std::ptr::eq(pair[0], pair[1]));
    match others.into_iter().find(|pair| protocol(pair[0]) != protocol(pair[1])) {
        Some(pair) => Err(Strangers { one: pair[0].name, other: pair[1].name }),
        None => Ok(()),
    }
}

/// Two models whose cards cannot share a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cards of the models {one} and {other} speak different protocols: they cannot be in one fabric")]
pub struct Strangers {
    one: &'static str,
    other: &'static str,
}

/// Returns the settings of these models, each once, with the models that have it.
pub fn settings(models: &[&'static Model]) -> Vec<Offered> {
    let mut all: Vec<Offered> = Vec::new();
    for model in models {
        for setting in model.settings {
            match all.iter_mut().find(|offered| offered.setting.name == setting.name) {
                Some(offered) => offered.defaults.push((model.name, setting.default)),
                None => all.push(Offered { setting, defaults: vec![(model.name, setting.default)] }),
            }
        }
    }
    all
}

/// A setting and the models that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// The setting as the first of these models describes it.
    pub setting: &'static Setting,
    /// Name of each model that has it, with its default there.
    pub defaults: Vec<(&'static str, u32)>,
}

/// A feature that only some models have, such as a demo's scenes or a simulation. A model that has
/// it adds a line.
#[derive(Debug)]
pub struct PerModel<T: 'static> {
    /// Name of the feature: `simulation`.
    what: &'static str,
    /// Entries by model name.
    entries: &'static [(&'static str, T)],
}

impl<T> PerModel<T> {
    /// Creates the table.
    pub const fn new(what: &'static str, entries: &'static [(&'static str, T)]) -> Self {
        Self { what, entries }
    }

    /// Returns the entry of a model. If it has none, fails with the names of the models that do.
    pub fn of(&self, model: &Model) -> Result<&'static T, NotThere> {
        let found = self.entries.iter().find(|(name, _)| *name == model.name);
        found.map(|(_, entry)| entry).ok_or_else(|| NotThere {
            model: model.name,
            what: self.what,
            others: list(self.entries.iter().map(|(name, _)| *name)),
        })
    }

    /// Returns the names of the models that have the feature.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|(name, _)| *name)
    }
}

/// A model lacks a feature that others have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("model {model} has no {what}; these have: {others}")]
pub struct NotThere {
    model: &'static str,
    what: &'static str,
    others: String,
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::uplink::Packets;

    /// A model that shares one setting with Hamlyn and has one of its own.
    static OTHER: Model = Model {
        name: "other",
        paper: "none",
        about: "For tests",
        settings: &[
            Setting { name: "packet-size", unit: "BYTES", about: "Its packets", default: 64 },
            Setting { name: "rings", unit: "N", about: "Its rings", default: 2 },
        ],
        bursts: None,
        make: |_| Err("it cannot be made".into()),
    };

    #[test]
    fn models_are_found_and_made_with_defaults() {
        let names: BTreeSet<_> = MODELS.iter().map(|model| model.name).collect();
        assert_eq!(names.len(), MODELS.len(), "two models have one name");
        for model in MODELS {
            assert!(std::ptr::eq(find(model.name).unwrap(), *model));
            let card = Choice::of(model).make().map_err(|error| format!("{}: {error}", model.name)).unwrap();
            let packets = Packets::of(&card.identity());
            assert!(packets.is_ok_and(|packets| packets.largest > 0), "{}", model.name);
            for text in [model.paper, model.about].into_iter().chain(model.settings.iter().map(|s| s.about)) {
                assert!(!text.is_empty() && !text.contains('\n'), "{}: {text:?}", model.name);
            }
        }
        assert_eq!(default().name, "hamlyn");
    }

    #[test]
    fn each_takes_one_or_one_per_card() {
        assert_eq!(each(&['a'], 3), Ok(vec!['a'; 3]));
        assert_eq!(each(&['a', 'b'], 2), Ok(vec!['a', 'b']));
        let refused = each(&['a', 'b'], 3).unwrap_err().to_string();
        assert_eq!(refused, "2 values are given for 3 cards (must be 1 or 3)");
    }

    #[test]
    fn models_of_different_protocols_are_not_put_together() {
        let [first, second] = [MODELS[0], &OTHER];
        assert_eq!(check_together(&[first, first]), Ok(()));
        let refused = check_together(&[first, first, second]).unwrap_err().to_string();
        assert!(
            refused.starts_with("cards of the models hamlyn and other speak different protocols"),
            "{refused}"
        );
    }

    #[test]
    fn unknown_model_error_lists_all_models() {
        let error = find("Hamlyn ").unwrap_err().to_string();
        assert!(error.starts_with("model Hamlyn  does not exist; the models are: "), "{error}");
        assert!(MODELS.iter().all(|model| error.contains(model.name)), "{error}");
    }

    #[test]
    fn shared_setting_is_offered_once_with_all_defaults() {
        let offered = settings(&[&hamlyn::MODEL, &OTHER]);
        let of = |name| offered.iter().filter(|offered| offered.setting.name == name).collect::<Vec<_>>();
        assert_eq!(of("packet-size").len(), 1);
        assert_eq!(of("packet-size")[0].defaults, [("hamlyn", 4096), ("other", 64)]);
        assert_eq!(of("rings")[0].defaults, [("other", 2)]);
        assert_eq!(offered.len(), hamlyn::MODEL.settings.len() + 1);
    }

    #[test]
    fn a_setting_of_another_model_is_refused() {
        let refused = Choice::of(&OTHER).set("termini", 3).unwrap_err();
        assert_eq!(refused.to_string(), "model other has no termini");
        assert!(Choice::of(&hamlyn::MODEL).set("rings", 3).is_err());
        Choice::of(&OTHER).set("packet-size", 3).unwrap();
    }

    #[test]
    fn suggestion_does_not_override_a_choice() {
        let mut choice = Choice::of(&OTHER);
        choice.suggest("rings", 5);
        choice.suggest("termini", 5);
        assert_eq!((choice.get("rings"), choice.get("packet-size")), (Ok(5), Ok(64)));
        choice.set("rings", 6).unwrap();
        choice.suggest("rings", 7);
        assert_eq!(choice.get("rings"), Ok(6));
    }

    #[test]
    fn missing_feature_error_lists_models_with_it() {
        static SONGS: PerModel<u32> = PerModel::new("song", &[("hamlyn", 7)]);
        assert_eq!(SONGS.of(&hamlyn::MODEL), Ok(&7));
        let refused = SONGS.of(&OTHER).unwrap_err().to_string();
        assert_eq!(refused, "model other has no song; these have: hamlyn");
    }

    #[test]
    fn has_doorbells_if_the_card_has_them() {
        assert!(has_doorbells(&hamlyn::MODEL));
        assert!(!has_doorbells(&OTHER));
    }
}
