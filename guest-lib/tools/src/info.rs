//! `hamlyn-info`: what the cards are, and their counters. Like `ibv_devinfo`.

use std::process::ExitCode;

use hamlyn::{Card, CardInfo, Statistic};
use serde_json::{Map, Value, json};

use crate::card::CardOption;
use crate::{Outcome, say};

/// Shows what a card is and how much of everything it has
///
/// Without --card, every card of this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    card: CardOption,
    /// The card's counters too, even those that are zero
    #[arg(short, long)]
    verbose: bool,
    /// A JSON object for each card, on a line of its own
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Outcome<ExitCode> {
    let names = match options.card.name() {
        Some(name) => vec![name.to_owned()],
        None => all_cards()?,
    };
    for name in &names {
        let card = Card::open(name)?;
        let (info, counters) = (card.info()?, card.statistics()?);
        if options.json {
            say(object(name, &info, &counters))?;
        } else {
            say(text(name, &info, if options.verbose { &counters } else { &[] }))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The machine's cards, as the driver names them, in the order of their numbers.
fn all_cards() -> Outcome<Vec<String>> {
    let names = std::fs::read_dir("/dev")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names.filter_map(|name| name.strip_prefix("hamlyn")?.parse().ok()).collect();
    numbers.sort_unstable();
    if numbers.is_empty() {
        return Err("this machine has no card (/dev/hamlynN): is the module loaded?".into());
    }
    Ok(numbers.iter().map(|number| format!("/dev/hamlyn{number}")).collect())
}

fn version(info: &CardInfo) -> String {
    format!("{}.{}", info.abi_version >> 16, info.abi_version & 0xffff)
}

fn object(name: &str, info: &CardInfo, counters: &[(Statistic, u64)]) -> Value {
    let counters: Map<String, Value> =
        counters.iter().map(|(counter, value)| (counter.name().to_owned(), (*value).into())).collect();
    json!({
        "card": name,
        "host": info.host,
        "abi_version": version(info),
        "packet_size": info.packet_size,
        "sram_size": info.sram_size,
        "termini": info.termini,
        "slots": info.slots,
        "queues": info.queues,
        "vectors": info.vectors,
        "counters": counters,
    })
}

fn text(name: &str, info: &CardInfo, counters: &[(Statistic, u64)]) -> String {
    let state = if info.host.is_some() { "up" } else { "down" };
    let host = info.host.map_or_else(|| "none".to_owned(), |host| host.to_string());
    let mut lines = vec![
        format!("card:\t{name}"),
        line("link", state),
        line("host", host),
        line("abi_version", version(info)),
        line("packet_size", format_args!("{} bytes", info.packet_size)),
        line("sram_size", format_args!("{} bytes", info.sram_size)),
        line("termini", info.termini),
        line("slots", info.slots),
        line("queues", info.queues),
        line("vectors", info.vectors),
    ];
    if !counters.is_empty() {
        lines.push("\tcounters:".to_owned());
        lines.extend(counters.iter().map(|(counter, value)| format!("\t{}", line(counter.name(), value))));
    }
    lines.join("\n")
}

fn line(name: &str, value: impl std::fmt::Display) -> String {
    format!("\t{:<32}{value}", format!("{name}:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_without_a_link_has_no_host() {
        let mut info = CardInfo::default();
        info.abi_version = 0x0001_0002;
        let said = text("/dev/hamlyn0", &info, &[(Statistic::ALL[0], 7)]);
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(
            words[..8],
            ["card:", "/dev/hamlyn0", "link:", "down", "host:", "none", "abi_version:", "1.2"]
        );
        assert_eq!(words[words.len() - 2..], [&format!("{}:", Statistic::ALL[0].name()), "7"]);
        assert_eq!(object("c", &info, &[])["host"], Value::Null);
    }
}
