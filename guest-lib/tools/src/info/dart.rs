//! Description of a DART card.

use hamlyn_abi::dart::connection::{DART_LONGEST, DART_MAX_REGISTERS};
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_abi::dart::uapi::{DART_MAX_BANK, DartQuery};

use super::facts::{Facts, driven};
use crate::Outcome;

pub(crate) fn facts(name: &str) -> Outcome<Facts> {
    let (query, counters) = driven::<hamlyn::dart::Dart>(name, &DartStatistic::NAMES)?;
    let own = query.of_card::<DartQuery>().unwrap_or_default();
    let mut facts = Facts::of(&query, counters);
    facts.fields = vec![
        ("registers", own.registers.into(), ""),
        ("program", own.program.into(), " entries"),
        ("tlb", own.tlb.into(), " translations"),
        ("window", own.window.into(), " cells"),
    ];
    facts.limits = vec![
        ("max_connections", own.connections.into(), ""),
        ("max_endpoints", own.endpoints.into(), ""),
        ("max_queues", own.queues.into(), ""),
        ("max_registers_of_bank", DART_MAX_BANK.into(), ""),
        ("max_registers_of_connection", DART_MAX_REGISTERS.into(), ""),
        ("max_message", DART_LONGEST.into(), " bytes"),
    ];
    Ok(facts)
}
