//! `hamlyn-info`: description and counters of the cards. Like `ibv_devinfo`.

mod clan;
mod dart;
mod echo;
mod facts;
mod hamlyn;
mod shrimp;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use ::hamlyn::attach::Model;
use ::hamlyn::clan::Clan;
use ::hamlyn::dart::Dart;
use ::hamlyn::echo::Echo;
use ::hamlyn::shrimp::Shrimp;
use ::hamlyn::{Card, Error, FIND_TIMEOUT, Found};
use serde_json::{Map, Value, json};

use self::facts::{Fact, Facts, class};
use crate::card::{CardOption, all_cards, open};
use crate::{Outcome, complain, say};

const EXAMPLES: &str = "\
Examples:
  hamlyn-info                  every card of this machine
  hamlyn-info -d /dev/hamlyn1 -v
  hamlyn-info -d /dev/shrimp0 --json | jq .snoops      whether the card sees this machine's stores
  hamlyn-info --find weather   which hosts have a listener of that name
  hamlyn-info --json | jq -r 'select(.host == null).card'      cards without a link";

/// Shows what a card is, and its limits and resources
///
/// Without --card it shows every card of this machine. A card that does not respond does not hide
/// the others.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    card: CardOption,
    /// Also show the card's counters, including those that are zero
    #[arg(short, long)]
    verbose: bool,
    /// Show the hosts that have a listener of this name instead; they are asked through the card
    #[arg(long, value_name = "NAME")]
    find: Option<String>,
    /// Print a JSON object for each card, on its own line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Outcome<ExitCode> {
    let names = match options.card.name() {
        Some(name) => vec![name.to_owned()],
        None => all_cards()?,
    };
    if names.is_empty() {
        return Err(
            "this machine has no card (/dev/hamlynN, or of another model): is the module loaded?".into()
        );
    }
    let mut status = ExitCode::SUCCESS;
    for name in &names {
        let about = match &options.find {
            Some(wanted) => Sought::ask(name, wanted).map(|sought| sought.show(options.json)),
            None => About::ask(name).map(|about| about.show(options)),
        };
        match about {
            Ok(text) => say(text)?,
            Err(error) => {
                complain(format_args!("error: {name}: {error}"));
                status = ExitCode::FAILURE;
            }
        }
    }
    Ok(status)
}

/// How to describe a card of this name.
type Describe = fn(&str) -> Outcome<Facts>;

/// The other models, and how to describe a card of each.
const OTHERS: [(u32, Describe); 4] = [
    (Shrimp::NUMBER, shrimp::facts),
    (Clan::NUMBER, clan::facts),
    (Dart::NUMBER, dart::facts),
    (Echo::NUMBER, echo::facts),
];

/// Returns the description of a card, which has this name.
fn facts(name: &str) -> Outcome<Facts> {
    let card = match Card::open(name) {
        Err(error @ Error::OtherModel { model, .. }) => {
            let other = OTHERS.iter().find(|(number, _)| *number == model);
            return other.ok_or(error).map_err(Into::into).and_then(|(_, facts)| facts(name));
        }
        card => card?,
    };
    hamlyn::facts(name, &card)
}

/// A card's complete description.
struct About {
    name: String,
    driver: Driver,
    facts: Facts,
}

/// The system's description of a card; empty for a card that is attached without a driver.
#[derive(Default)]
struct Driver {
    /// Version of the module.
    version: Option<String>,
    pci_address: Option<String>,
}

impl Driver {
    fn of(name: &str) -> Self {
        let Some(node) = name.strip_prefix("/dev/") else { return Self::default() };
        let version = fs::read_to_string("/sys/module/hamlyn/version").ok();
        let device = class(node).and_then(|class| fs::canonicalize(class.join("device")).ok());
        let address = device.as_deref().and_then(Path::file_name);
        Self {
            version: version.map(|text| text.trim().to_owned()),
            pci_address: address.map(|address| address.to_string_lossy().into_owned()),
        }
    }
}

/// Hosts that have a name, queried through a card.
struct Sought {
    card: String,
    name: String,
    found: Found,
}

impl Sought {
    fn ask(card: &str, name: &str) -> Outcome<Self> {
        let found = open(card)?.find_timeout(name, FIND_TIMEOUT)?;
        Ok(Self { card: card.to_owned(), name: name.to_owned(), found })
    }

    fn show(&self, json: bool) -> String {
        let Found { hosts, too_old, silent, .. } = &self.found;
        if json {
            let Self { card, name, .. } = self;
            let object =
                json!({ "card": card, "name": name, "hosts": hosts, "too_old": too_old, "silent": silent });
            return object.to_string();
        }
        // Most of the silent hosts are absent: their number suffices.
        let lines = [
            format!("card:\t{}", self.card),
            line("name", &self.name),
            line("hosts", list(hosts)),
            line("too_old", list(too_old)),
            line("silent", silent.len()),
        ];
        lines.join("\n")
    }
}

fn list(hosts: &[u32]) -> String {
    let hosts: Vec<String> = hosts.iter().map(u32::to_string).collect();
    if hosts.is_empty() { "none".to_owned() } else { hosts.join(" ") }
}

impl About {
    fn show(&self, options: &Options) -> String {
        if options.json { self.object().to_string() } else { self.text(options.verbose) }
    }

    fn ask(name: &str) -> Outcome<Self> {
        let facts = facts(name)?;
        Ok(Self { name: name.to_owned(), driver: Driver::of(name), facts })
    }

    fn object(&self) -> Value {
        let facts = &self.facts;
        let counters: Map<String, Value> =
            facts.counters.iter().map(|(counter, value)| ((*counter).to_owned(), (*value).into())).collect();
        let mut object = Map::from_iter([
            ("card".to_owned(), self.name.clone().into()),
            ("host".to_owned(), facts.host.into()),
            ("ports".to_owned(), facts.ports.into()),
            ("pci_address".to_owned(), self.driver.pci_address.clone().into()),
            ("driver_version".to_owned(), self.driver.version.clone().into()),
            ("uapi_version".to_owned(), facts.interface.map(version).into()),
            ("abi_version".to_owned(), version(facts.abi_version).into()),
        ]);
        object.extend(values(&facts.fields));
        object.insert("limits".to_owned(), values(&facts.limits).collect::<Map<_, _>>().into());
        object.insert("counters".to_owned(), counters.into());
        object.into()
    }

    fn text(&self, verbose: bool) -> String {
        let facts = &self.facts;
        let state = if facts.host.is_some() { "up" } else { "down" };
        let none = || "none".to_owned();
        let mut lines = vec![
            format!("card:\t{}", self.name),
            line("link", state),
            line("host", facts.host.map_or_else(none, |host| host.to_string())),
            line("ports", facts.ports.map_or_else(none, |ports| ports.to_string())),
            line("pci_address", self.driver.pci_address.clone().unwrap_or_else(none)),
            line("driver_version", self.driver.version.clone().unwrap_or_else(none)),
            line("uapi_version", facts.interface.map_or_else(none, version)),
            line("abi_version", version(facts.abi_version)),
        ];
        lines.extend(facts.fields.iter().chain(&facts.limits).map(fact));
        if verbose {
            lines.push("\tcounters:".to_owned());
            let counters = facts.counters.iter().map(|(counter, value)| line(counter, value));
            lines.extend(counters.map(|line| format!("\t{line}")));
        }
        lines.join("\n")
    }
}

fn values(facts: &[Fact]) -> impl Iterator<Item = (String, Value)> {
    facts.iter().map(|(name, value, _)| ((*name).to_owned(), value.clone()))
}

/// Formats a fact for human readers; unknown values show as "none".
fn fact((name, value, unit): &Fact) -> String {
    match value {
        Value::Null => line(name, "none"),
        Value::Bool(value) => line(name, if *value { "yes" } else { "no" }),
        value => line(name, format_args!("{value}{unit}")),
    }
}

/// Formats a version: major in the upper half, minor in the lower.
fn version(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xffff)
}

fn line(name: &str, value: impl std::fmt::Display) -> String {
    format!("\t{:<32}{value}", format!("{name}:"))
}

#[cfg(test)]
mod tests {
    use hamlyn_abi::family::link::ULN_NO_HOST;
    use hamlyn_abi::uapi::UlnQuery;

    use super::*;

    #[test]
    fn a_card_without_a_link_has_no_host() {
        let driver = Driver { pci_address: Some("0000:00:02.0".to_owned()), ..Driver::default() };
        let query = UlnQuery { host: ULN_NO_HOST, abi_version: 0x0001_0002, ..UlnQuery::default() };
        let mut facts = Facts::of(&query, vec![("lost", 7)]);
        facts.interface = None;
        facts.fields = vec![("snoops", false.into(), "")];
        facts.limits = vec![("max_area", (1 << 30).into(), " bytes")];
        let about = About { name: "/dev/hamlyn0".to_owned(), driver, facts };
        let said = about.text(true);
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(words[..8], ["card:", "/dev/hamlyn0", "link:", "down", "host:", "none", "ports:", "none"]);
        assert_eq!(words[words.len() - 2..], ["lost:", "7"]);
        assert!(said.contains("max_area:                       1073741824 bytes"), "{said}");
        assert!(said.contains("0000:00:02.0"), "{said}");
        let object = about.object();
        assert_eq!(object["ports"], Value::Null);
        assert_eq!((&object["host"], &object["uapi_version"]), (&Value::Null, &Value::Null));
        assert_eq!(object["abi_version"], "1.2");
        assert_eq!((&object["snoops"], &object["limits"]["max_area"]), (&false.into(), &(1 << 30).into()));
        assert!(said.contains("snoops:                         no"), "{said}");
    }
}
