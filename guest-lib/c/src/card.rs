//! Open cards.

use std::ffi::c_char;

use hamlyn::Card;

use crate::exported::{Out, exported};
use crate::memory::text;

/// An open card: one protection domain. Any number of threads may use it at once.
pub struct hamlyn_card(pub(crate) Card);

/// Host id of a card whose link is down.
pub const ULN_NO_LINK: u32 = 0xffff_ffff;

/// Properties and resource counts of a card.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_card_info {
    /// Host id, or ULN_NO_LINK while the link is down.
    pub host: u32,
    /// Version of the card's ABI: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// Maximum data in a packet, in bytes.
    pub packet_size: u32,
    /// Size of the card's memory, in bytes.
    pub sram_size: u32,
    /// Number of send termini.
    pub termini: u32,
    /// Number of slots.
    pub slots: u32,
    /// Number of notification queues.
    pub queues: u32,
    /// Number of interrupt vectors.
    pub vectors: u32,
    /// Number of switch ports: host ids are below it. 0 while the link is down, or if the card or
    /// driver is too old to report it.
    pub ports: u32,
    /// Free bytes of the card's memory. Also 0 if the card or driver is too old to report it.
    pub sram_free: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 6],
}

exported! {
/// Opens a card. The name is "/dev/hamlynN", or "vfio-user:" and the path of a card's socket, which
/// needs no virtual machine. NULL opens the card that the environment variable HAMLYN_CARD names,
/// or /dev/hamlyn0 if it is not set.
fn hamlyn_open(name: *const c_char, card: Out<Box<hamlyn_card>>) {
    let opened = if name.is_null() { Card::open_default() } else { Card::open(text(name, "name")?) };
    card.store(hamlyn_card(opened?))
}

/// Releases a card. It is closed when everything created from it is gone too. NULL is a no-op.
fn hamlyn_close(card: Box<hamlyn_card>);

/// Stores the card's current properties.
fn hamlyn_get_info(card: &hamlyn_card, info: Out<hamlyn_card_info>) {
    let now = card.0.info()?;
    info.store(hamlyn_card_info {
        host: now.host.unwrap_or(ULN_NO_LINK),
        abi_version: now.abi_version,
        packet_size: now.packet_size,
        sram_size: now.sram_size,
        termini: now.termini,
        slots: now.slots,
        queues: now.queues,
        vectors: now.vectors,
        ports: now.ports.unwrap_or(0),
        sram_free: now.sram_free.unwrap_or(0),
        reserved: [0; 6],
    })
}
}
