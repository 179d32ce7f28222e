//! DART cards.

use std::ffi::c_char;
use std::path::Path;

use hamlyn::dart::{Card, Statistic};

use crate::card::ULN_NO_LINK;
use crate::exported::{Out, exported};
use crate::memory::{items_mut, text};
use crate::ticket::print_counter;

/// An open DART card. Objects created with it belong to this process. Objects can be used together
/// only if they were created with the same open card. Any number of threads may use it at once.
pub struct dart_card(pub(crate) Card);

/// Properties of a card.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_card_info {
    /// Host id, or ULN_NO_LINK while the link is down.
    pub host: u32,
    /// Version of the card's ABI: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Number of connections available to processes.
    pub connections: u32,
    /// Number of endpoints available to processes.
    pub endpoints: u32,
    /// Number of address registers of all banks together (section 2 of the paper).
    pub registers: u32,
    /// Number of entries of all programs.
    pub program: u32,
    /// Number of queues.
    pub queues: u32,
    /// Number of page translations that the card caches (section 3).
    pub tlb: u32,
    /// Number of cells that a connection may have in flight.
    pub window: u32,
    /// Number of switch ports: host ids are below it. 0 while the link is down.
    pub ports: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 6],
}

exported! {
/// Opens a card, "/dev/dartN". NULL opens the card that the environment variable DART_CARD names,
/// or /dev/dart0 if it is not set. Fails with -EPROTO for a card of another model.
fn dart_open(name: *const c_char, card: Out<Box<dart_card>>) {
    let opened =
        if name.is_null() { Card::open_default()? } else { Card::open_path(Path::new(text(name, "name")?))? };
    card.store(dart_card(opened))
}

/// Releases a card. It is closed when everything created with it is gone too. NULL is a no-op.
fn dart_close(card: Box<dart_card>);

/// Stores the card's current properties.
fn dart_get_info(card: &dart_card, info: Out<dart_card_info>) {
    let now = card.0.info()?;
    info.store(dart_card_info {
        host: now.host.unwrap_or(ULN_NO_LINK),
        abi_version: now.abi_version,
        connections: now.connections,
        endpoints: now.endpoints,
        registers: now.registers,
        program: now.program,
        queues: now.queues,
        tlb: now.tlb,
        window: now.window,
        ports: now.ports.unwrap_or(0),
        reserved: [0; 6],
    })
}

/// Reads the card's counters, at most `count` of them. Returns the total number of counters.
fn dart_statistics(card: &dart_card, values: *mut u64, count: usize) {
    let statistics = card.0.statistics()?;
    for (to, (_, value)) in items_mut(values, count, "values")?.iter_mut().zip(&statistics) {
        to.write(*value);
    }
    statistics.len()
}

/// Writes the zero-terminated name of counter `number` into `size` bytes; HAMLYN_TEXT_SIZE is
/// enough.
fn dart_statistic_name(number: u32, text: *mut c_char, size: usize) {
    print_counter(Statistic::NAMES.get(number as usize).copied(), number, text, size)?
}
}
