//! The DART card's entry in a catalogue of models.

use hamlyn_card::card::Card;
use hamlyn_card::model::{Choice, MakeError, Model, Setting};

use crate::DartCard;
use crate::tlb::Policy;

/// Options of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Number of connections.
    pub connections: u32,
    /// Number of endpoints.
    pub endpoints: u32,
    /// Number of address registers.
    pub registers: u32,
    /// Number of entries of all programs.
    pub program: u32,
    /// Number of queues.
    pub queues: u32,
    /// Number of translations.
    pub tlb: u32,
    /// Which translation makes room for another.
    pub policy: Policy,
    /// Number of cells that a connection may have in flight.
    pub window: u32,
    /// Handshake period in milliseconds, or 0 for no limit.
    pub handshake_ms: u32,
}

/// The DART card.
pub static MODEL: Model = Model {
    name: "dart",
    paper: "Osborne: A Hybrid Deposit Model for Low Overhead Communication in High Speed LANs",
    about: "Messages that carry operations on the receiver's memory and registers (1994)",
    settings: &[
        Setting { name: "connections", unit: "N", about: "Connections: 128 to 16384", default: 1024 },
        Setting { name: "endpoints", unit: "N", about: "Endpoints: 128 to 16384", default: 1024 },
        Setting { name: "registers", unit: "N", about: "Address registers: 256 to 1048576", default: 8192 },
        Setting { name: "program", unit: "N", about: "Entries of all programs: 32 to 65536", default: 1024 },
        Setting { name: "queues", unit: "N", about: "Queues: 8 to 4096", default: 256 },
        Setting { name: "tlb", unit: "N", about: "Translations of pages: 1 to 65536", default: 1024 },
        Setting {
            name: "tlb-policy",
            unit: "N",
            about: "Which translation makes room: 0 the least recently used, 1 each in turn, 2 any",
            default: 0,
        },
        Setting {
            name: "window",
            unit: "CELLS",
            about: "Cells that a connection may have on their way: 2048 to 65536",
            default: 2048,
        },
        Setting::HANDSHAKE,
    ],
    bursts: None,
    make,
};

fn make(choice: &Choice) -> Result<Box<dyn Card + Send>, MakeError> {
    let policy = match choice.in_range("tlb-policy", "TLB policy", 0..=2)? {
        0 => Policy::LeastRecentlyUsed,
        1 => Policy::InTurn,
        _ => Policy::Random,
    };
    Ok(Box::new(DartCard::new(Options {
        connections: choice.in_range("connections", "number of connections", 128..=16384)?,
        endpoints: choice.in_range("endpoints", "number of endpoints", 128..=16384)?,
        registers: choice.in_range("registers", "number of address registers", 256..=1_048_576)?,
        program: choice.in_range("program", "number of program entries", 32..=65536)?,
        queues: choice.in_range("queues", "number of queues", 8..=4096)?,
        tlb: choice.in_range("tlb", "number of translations", 1..=65536)?,
        policy,
        window: choice.in_range("window", "window in cells", 2048..=65536)?,
        handshake_ms: choice.handshake_ms()?,
    })))
}
