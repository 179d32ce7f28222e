//! CLAN cards.

use std::ffi::c_char;
use std::path::Path;

use hamlyn::clan::{Card, Statistic};

use crate::card::ULN_NO_LINK;
use crate::exported::{Out, exported};
use crate::memory::{items_mut, text};
use crate::ticket::print_counter;

/// An open CLAN card. Objects created with it belong to this process. Objects can be used together
/// only if they were created with the same open card. Any number of threads may use it at once.
pub struct clan_card(pub(crate) Card);

/// Properties of a card.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_card_info {
    /// Host id, or ULN_NO_LINK while the link is down.
    pub host: u32,
    /// Version of the card's ABI: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Number of apertures available to processes.
    pub apertures: u32,
    /// Number of window pages available to processes.
    pub window_pages: u32,
    /// Number of endpoints available to processes, and of event queues.
    pub endpoints: u32,
    /// Number of Tripwires of all endpoints together (section 2.5 of the paper).
    pub tripwires: u32,
    /// Maximum data in a packet, in bytes.
    pub burst: u32,
    /// Number of words that a host may have in flight to another host (section 2.2).
    pub credits: u32,
    /// Number of switch ports: host ids are below it. 0 while the link is down.
    pub ports: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 7],
}

exported! {
/// Opens a card, "/dev/clanN". NULL opens the card that the environment variable CLAN_CARD names,
/// or /dev/clan0 if it is not set. Fails with -EPROTO for a card of another model.
fn clan_open(name: *const c_char, card: Out<Box<clan_card>>) {
    let opened =
        if name.is_null() { Card::open_default()? } else { Card::open_path(Path::new(text(name, "name")?))? };
    card.store(clan_card(opened))
}

/// Releases a card. It is closed when everything created with it is gone too. NULL is a no-op.
fn clan_close(card: Box<clan_card>);

/// Stores the card's current properties.
fn clan_get_info(card: &clan_card, info: Out<clan_card_info>) {
    let now = card.0.info()?;
    info.store(clan_card_info {
        host: now.host.unwrap_or(ULN_NO_LINK),
        abi_version: now.abi_version,
        apertures: now.apertures,
        window_pages: now.window_pages,
        endpoints: now.endpoints,
        tripwires: now.tripwires,
        burst: now.burst,
        credits: now.credits,
        ports: now.ports.unwrap_or(0),
        reserved: [0; 7],
    })
}

/// Reads the card's counters, at most `count` of them. Returns the total number of counters.
fn clan_statistics(card: &clan_card, values: *mut u64, count: usize) {
    let statistics = card.0.statistics()?;
    for (to, (_, value)) in items_mut(values, count, "values")?.iter_mut().zip(&statistics) {
        to.write(*value);
    }
    statistics.len()
}

/// Writes the zero-terminated name of counter `number` into `size` bytes; HAMLYN_TEXT_SIZE is
/// enough.
fn clan_statistic_name(number: u32, text: *mut c_char, size: usize) {
    print_counter(Statistic::NAMES.get(number as usize).copied(), number, text, size)?
}
}
