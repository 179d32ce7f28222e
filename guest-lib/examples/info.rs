//! What a card is, and its counters.

use std::process::ExitCode;

use clap::Parser;
use serde_json::{Map, Value, json};

mod common;

/// Prints what the card is, and its counters
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
}

fn main() -> ExitCode {
    common::run(|| {
        let card = Options::parse().card.open()?;
        let info = card.info()?;
        let counters: Map<String, Value> = card
            .statistics()?
            .into_iter()
            .map(|(counter, value)| (counter.name().to_owned(), value.into()))
            .collect();
        common::print(&json!({
            "host": info.host,
            "abi_version": format!("{}.{}", info.abi_version >> 16, info.abi_version & 0xffff),
            "packet_size": info.packet_size,
            "sram_size": info.sram_size,
            "termini": info.termini,
            "slots": info.slots,
            "queues": info.queues,
            "vectors": info.vectors,
            "counters": counters,
        }))
    })
}
