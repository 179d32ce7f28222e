//! The card's self-tests: register access, DMA, interrupts. The exit status is 1 if one fails.

use std::process::ExitCode;

use clap::Parser;
use hamlyn_examples as common;
use serde_json::json;

/// Runs the card's self-tests; in a machine only root may
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
}

fn main() -> ExitCode {
    common::run(|| {
        let card = Options::parse().card.open()?;
        let info = card.info()?;
        let results = card.self_test()?;
        common::print(&json!({
            "passed": results.passed(),
            "access": results.access.unwrap_or("passed"),
            "dma": results.dma.unwrap_or("passed"),
            "interrupt": results.interrupt.map_or("passed".into(), |vector| format!("vector {vector} did not arrive")),
            "host": info.host,
        }))?;
        if results.passed() { Ok(()) } else { Err("a self-test failed".into()) }
    })
}
