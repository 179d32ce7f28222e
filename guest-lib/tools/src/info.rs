//! `hamlyn-info`: what the cards are, and their counters. Like `ibv_devinfo`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use hamlyn::attach::{CardAttachment, DeviceAttachment};
use hamlyn::{Card, CardInfo, FIND_TIMEOUT, Found, Statistic};
use hamlyn_abi::family::area::HAMLYN_MAX_AREA;
use hamlyn_abi::hamlyn::command::HAMLYN_MAX_WEIGHT;
use hamlyn_abi::hamlyn::notification::HAMLYN_QUEUE_MAX_ENTRIES;
use hamlyn_abi::hamlyn::request::{HAMLYN_MAX_GATHER, HAMLYN_MAX_METADATA};
use hamlyn_abi::hamlyn::window::HAMLYN_WORK_QUEUE_ENTRIES;
use serde_json::{Map, Value, json};

use crate::card::CardOption;
use crate::{Outcome, say};

const EXAMPLES: &str = "\
Examples:
  hamlyn-info                  every card of this machine
  hamlyn-info -d /dev/hamlyn1 -v
  hamlyn-info --find weather   which hosts have a listener of that name
  hamlyn-info --json | jq -r 'select(.host == null).card'      cards without a link";

/// Shows what a card is and how much of everything it has
///
/// Without --card, every card of this machine: one that cannot be asked does not hide the others.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    card: CardOption,
    /// The card's counters too, even those that are zero
    #[arg(short, long)]
    verbose: bool,
    /// Which hosts have a listener of this name, instead: they are asked through the card
    #[arg(long, value_name = "NAME")]
    find: Option<String>,
    /// A JSON object for each card, on a line of its own
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Outcome<ExitCode> {
    let names = match options.card.name() {
        Some(name) => vec![name.to_owned()],
        None => all_cards()?,
    };
    let mut status = ExitCode::SUCCESS;
    for name in &names {
        let about = match &options.find {
            Some(wanted) => Sought::ask(name, wanted).map(|sought| sought.show(options.json)),
            None => About::ask(name).map(|about| about.show(options)),
        };
        match about {
            Ok(text) => say(text)?,
            Err(error) => {
                eprintln!("error: {name}: {error}");
                status = ExitCode::FAILURE;
            }
        }
    }
    Ok(status)
}

/// The machine's cards, as the driver names them, in the order of their numbers.
fn all_cards() -> Outcome<Vec<String>> {
    let names = fs::read_dir("/dev")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let cards = cards_among(names);
    if cards.is_empty() {
        return Err("this machine has no card (/dev/hamlynN): is the module loaded?".into());
    }
    Ok(cards)
}

/// The cards among the devices of these names.
fn cards_among(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut numbers: Vec<u32> = names.filter_map(|name| name.strip_prefix("hamlyn")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.iter().map(|number| format!("/dev/hamlyn{number}")).collect()
}

/// What there is to say of a card.
struct About {
    name: String,
    info: CardInfo,
    driver: Driver,
    counters: Vec<(Statistic, u64)>,
}

/// What the system says of a card; nothing of one that is attached to without a driver.
#[derive(Default)]
struct Driver {
    /// Version of the module, and of what it and the library agree on.
    version: Option<String>,
    interface: Option<u32>,
    pci_address: Option<String>,
}

impl Driver {
    fn of(name: &str) -> Outcome<Self> {
        let Some(node) = name.strip_prefix("/dev/") else { return Ok(Self::default()) };
        let version = fs::read_to_string("/sys/module/hamlyn/version").ok();
        let device = fs::canonicalize(Path::new("/sys/class/hamlyn").join(node).join("device")).ok();
        let address = device.as_deref().and_then(Path::file_name);
        Ok(Self {
            version: version.map(|text| text.trim().to_owned()),
            interface: Some(DeviceAttachment::open(Path::new(name))?.query()?.uapi_version),
            pci_address: address.map(|address| address.to_string_lossy().into_owned()),
        })
    }
}

/// The most of what any card takes: name, value and unit.
const LIMITS: [(&str, u64, &str); 6] = [
    ("max_area", HAMLYN_MAX_AREA, " bytes"),
    ("max_queue_entries", HAMLYN_QUEUE_MAX_ENTRIES as u64, ""),
    ("max_metadata", HAMLYN_MAX_METADATA as u64, " bytes"),
    ("max_gather", HAMLYN_MAX_GATHER as u64, ""),
    ("max_weight", HAMLYN_MAX_WEIGHT as u64, ""),
    ("work_queue_entries", HAMLYN_WORK_QUEUE_ENTRIES as u64, ""),
];

/// Which hosts have a name, asked through a card.
struct Sought {
    card: String,
    name: String,
    found: Found,
}

impl Sought {
    fn ask(card: &str, name: &str) -> Outcome<Self> {
        let found = Card::open(card)?.find(name, Some(FIND_TIMEOUT))?;
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
        // Most of those that say nothing are not there: their number will do.
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
        let card = Card::open(name)?;
        let (info, counters) = (card.info()?, card.statistics()?);
        Ok(Self { name: name.to_owned(), info, driver: Driver::of(name)?, counters })
    }

    fn object(&self) -> Value {
        let info = &self.info;
        let counters: Map<String, Value> = self
            .counters
            .iter()
            .map(|(counter, value)| (counter.name().to_owned(), (*value).into()))
            .collect();
        let limits: Map<String, Value> =
            LIMITS.iter().map(|(name, value, _)| ((*name).to_owned(), (*value).into())).collect();
        json!({
            "card": self.name,
            "host": info.host,
            "ports": info.ports,
            "pci_address": self.driver.pci_address,
            "driver_version": self.driver.version,
            "uapi_version": self.driver.interface.map(version),
            "abi_version": version(info.abi_version),
            "packet_size": info.packet_size,
            "sram_size": info.sram_size,
            "termini": info.termini,
            "slots": info.slots,
            "queues": info.queues,
            "vectors": info.vectors,
            "limits": limits,
            "counters": counters,
        })
    }

    fn text(&self, verbose: bool) -> String {
        let info = &self.info;
        let state = if info.host.is_some() { "up" } else { "down" };
        let none = || "none".to_owned();
        let mut lines = vec![
            format!("card:\t{}", self.name),
            line("link", state),
            line("host", info.host.map_or_else(none, |host| host.to_string())),
            line("ports", info.ports.map_or_else(none, |ports| ports.to_string())),
            line("pci_address", self.driver.pci_address.clone().unwrap_or_else(none)),
            line("driver_version", self.driver.version.clone().unwrap_or_else(none)),
            line("uapi_version", self.driver.interface.map_or_else(none, version)),
            line("abi_version", version(info.abi_version)),
            line("packet_size", format_args!("{} bytes", info.packet_size)),
            line("sram_size", format_args!("{} bytes", info.sram_size)),
            line("termini", info.termini),
            line("slots", info.slots),
            line("queues", info.queues),
            line("vectors", info.vectors),
        ];
        lines.extend(LIMITS.map(|(name, value, unit)| line(name, format_args!("{value}{unit}"))));
        if verbose {
            lines.push("\tcounters:".to_owned());
            let counters = self.counters.iter().map(|(counter, value)| line(counter.name(), value));
            lines.extend(counters.map(|line| format!("\t{line}")));
        }
        lines.join("\n")
    }
}

/// Major in the upper half, minor in the lower.
fn version(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xffff)
}

fn line(name: &str, value: impl std::fmt::Display) -> String {
    format!("\t{:<32}{value}", format!("{name}:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_is_listed_in_the_order_of_its_number() {
        let names = ["hamlyn10", "tty1", "hamlyn2", "hamlyn", "hamlynx", "hamlyn0"].map(str::to_owned);
        assert_eq!(cards_among(names.into_iter()), ["/dev/hamlyn0", "/dev/hamlyn2", "/dev/hamlyn10"]);
    }

    #[test]
    fn a_card_without_a_link_has_no_host() {
        let mut info = CardInfo::default();
        info.abi_version = 0x0001_0002;
        let driver = Driver { pci_address: Some("0000:00:02.0".to_owned()), ..Driver::default() };
        let counters = vec![(Statistic::ALL[0], 7)];
        let about = About { name: "/dev/hamlyn0".to_owned(), info, driver, counters };
        let said = about.text(true);
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(words[..8], ["card:", "/dev/hamlyn0", "link:", "down", "host:", "none", "ports:", "none"]);
        assert_eq!(words[words.len() - 2..], [&format!("{}:", Statistic::ALL[0].name()), "7"]);
        assert!(said.contains("max_area:                       1073741824 bytes"), "{said}");
        assert!(said.contains("0000:00:02.0"), "{said}");
        let object = about.object();
        assert_eq!(object["ports"], Value::Null);
        assert_eq!((&object["host"], &object["uapi_version"]), (&Value::Null, &Value::Null));
        assert_eq!(object["abi_version"], "1.2");
    }
}
