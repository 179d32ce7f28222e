//! SHRIMP cards.

use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;

use hamlyn::attach::Node;
use hamlyn::shrimp::{Card, Statistic};

use crate::card::ULN_NO_LINK;
use crate::exported::{Out, exported};
use crate::memory::{items_mut, text};
use crate::ticket::print_counter;

/// An open SHRIMP card. Any number of threads may use it at once.
pub struct shrimp_card(pub(crate) Card);

/// Properties of a card.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct shrimp_card_info {
    /// Host id, or ULN_NO_LINK while the link is down.
    pub host: u32,
    /// Version of the card's ABI: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Number of page table entries, one for each page of this machine's memory.
    pub pages: u32,
    /// Number of columns of the mesh.
    pub columns: u32,
    /// Size of each of the card's FIFOs in bytes.
    pub fifo: u32,
    /// 1 if the card snoops this machine's stores now. If 0, stores must go to window pages;
    /// shrimp_store and shrimp_memory take care of that.
    pub snoops: u32,
    /// Number of switch ports: host ids are below it. 0 while the link is down.
    pub ports: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 9],
}

exported! {
/// Opens a card, "/dev/shrimpN". NULL opens the card that the environment variable SHRIMP_CARD
/// names, or /dev/shrimp0 if it is not set. Fails with -EPROTO for a card of another model.
fn shrimp_open(name: *const c_char, card: Out<Box<shrimp_card>>) {
    let opened = if name.is_null() {
        Card::open_default()?
    } else {
        Card::attached(Arc::new(Node::open(Path::new(text(name, "name")?))?))
    };
    card.store(shrimp_card(opened))
}

/// Releases a card. It is closed when everything created from it is gone too. NULL is a no-op.
fn shrimp_close(card: Box<shrimp_card>);

/// Stores the card's current properties.
fn shrimp_get_info(card: &shrimp_card, info: Out<shrimp_card_info>) {
    let now = card.0.info()?;
    info.store(shrimp_card_info {
        host: now.host.unwrap_or(ULN_NO_LINK),
        abi_version: now.abi_version,
        pages: now.pages,
        columns: now.columns,
        fifo: now.fifo,
        snoops: now.snoops.into(),
        ports: now.ports.unwrap_or(0),
        reserved: [0; 9],
    })
}

/// Reads the card's counters, at most `count` of them. Returns the total number of counters.
fn shrimp_statistics(card: &shrimp_card, values: *mut u64, count: usize) {
    let statistics = card.0.statistics()?;
    for (to, (_, value)) in items_mut(values, count, "values")?.iter_mut().zip(&statistics) {
        to.write(*value);
    }
    statistics.len()
}

/// Writes the zero-terminated name of counter `number` into `size` bytes; HAMLYN_TEXT_SIZE is
/// enough.
fn shrimp_statistic_name(number: u32, text: *mut c_char, size: usize) {
    print_counter(Statistic::NAMES.get(number as usize).copied(), number, text, size)?
}
}
