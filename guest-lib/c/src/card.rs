//! Open cards.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use hamlyn::Card;

use crate::call::{call, free, given, store};
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

/// Opens a card. The name is "/dev/hamlynN", or "vfio-user:" and the path of a card's socket, which
/// needs no virtual machine. NULL opens the card that the environment variable HAMLYN_CARD names,
/// or /dev/hamlyn0 if it is not set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_open(
    name: *const c_char,
    card: Option<&mut MaybeUninit<Box<hamlyn_card>>>,
) -> c_int {
    call(|| {
        let to = given(card, "card")?;
        let card = if name.is_null() { Card::open_default() } else { Card::open(text(name, "name")?) };
        store(to, Box::new(hamlyn_card(card?)))
    })
}

/// Releases a card. It is closed when everything created from it is gone too. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_close(card: Option<Box<hamlyn_card>>) {
    free(card);
}

/// Stores the card's current properties.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_get_info(
    card: Option<&hamlyn_card>,
    info: Option<&mut MaybeUninit<hamlyn_card_info>>,
) -> c_int {
    call(|| {
        let to = given(info, "info")?;
        let info = given(card, "card")?.0.info()?;
        let info = hamlyn_card_info {
            host: info.host.unwrap_or(ULN_NO_LINK),
            abi_version: info.abi_version,
            packet_size: info.packet_size,
            sram_size: info.sram_size,
            termini: info.termini,
            slots: info.slots,
            queues: info.queues,
            vectors: info.vectors,
            ports: info.ports.unwrap_or(0),
            sram_free: info.sram_free.unwrap_or(0),
            reserved: [0; 6],
        };
        store(to, info)
    })
}
