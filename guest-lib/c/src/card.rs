//! Cards.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use hamlyn::Card;

use crate::call::{call, free, given, store};
use crate::memory::text;

/// An open card: one protection domain. Any number of threads may use it at once.
pub struct hamlyn_card(pub(crate) Card);

/// The host id of a card whose link is down.
pub const HAMLYN_NO_LINK: u32 = 0xffff_ffff;

/// What a card is and how much of everything it has.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_card_info {
    /// Its host id, or HAMLYN_NO_LINK while its link is down.
    pub host: u32,
    /// Version of the card's contract: major in the upper half, minor in the lower.
    pub abi_version: u32,
    /// The most data in a packet, in bytes.
    pub packet_size: u32,
    /// The card's memory, in bytes.
    pub sram_size: u32,
    /// Send termini.
    pub termini: u32,
    /// Slots.
    pub slots: u32,
    /// Notification queues.
    pub queues: u32,
    /// Interrupt vectors.
    pub vectors: u32,
    /// Ports of the switch, which host ids are below; 0 while the link is down, or if the card or
    /// driver is too old to know.
    pub ports: u32,
    /// Bytes of the card's memory that are free; 0 also if the card or driver is too old to know.
    pub sram_free: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 6],
}

/// Opens a card: "/dev/hamlynN", or "vfio-user:" and the path of a card's socket, with no virtual
/// machine. NULL is the card that the environment variable HAMLYN_CARD names, else /dev/hamlyn0.
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

/// Lets a card go; it is closed when all that was made from it is gone too. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_close(card: Option<Box<hamlyn_card>>) {
    free(card);
}

/// Describes a card as it is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_get_info(
    card: Option<&hamlyn_card>,
    info: Option<&mut MaybeUninit<hamlyn_card_info>>,
) -> c_int {
    call(|| {
        let to = given(info, "info")?;
        let info = given(card, "card")?.0.info()?;
        let info = hamlyn_card_info {
            host: info.host.unwrap_or(HAMLYN_NO_LINK),
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
