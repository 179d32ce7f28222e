//! Slots name message areas and hold the rights to write to them (sections 2.2 and 2.7).

use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID, HAMLYN_MODE_PARANOID_ONE_SHOT};
use hamlyn_card::chassis::area::Area;

use crate::sram::Place;

/// A slot's mode of operation (section 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Checks the slot's key and bounds.
    Normal,
    /// Checks the slot's bounds, then the metadata entry's key and bounds.
    Paranoid,
    /// Like paranoid, and an entry is locked by its first message.
    ParanoidOneShot,
}

impl Mode {
    pub(super) fn from_abi(mode: u32) -> Option<Self> {
        match mode {
            HAMLYN_MODE_NORMAL => Some(Mode::Normal),
            HAMLYN_MODE_PARANOID => Some(Mode::Paranoid),
            HAMLYN_MODE_PARANOID_ONE_SHOT => Some(Mode::ParanoidOneShot),
            _ => None,
        }
    }
}

/// An open slot. Only commands of the operating system open and close slots.
#[derive(Debug)]
pub(super) struct Slot {
    /// Its place in the SRAM.
    pub(super) place: Place,
    /// Base and bound of the message area.
    pub(super) area: Area,
    /// The metadata area and the number of its entries.
    pub(super) metadata: Option<(Area, u32)>,
    /// Address at which the owner sees the metadata area.
    pub(super) metadata_pointer: u64,
    pub(super) key: u64,
    pub(super) mode: Mode,
    /// Number of the notification queue.
    pub(super) queue: Option<u32>,
    /// The owner's number for the slot.
    pub(super) notification_index: u32,
    /// Whether a message interrupts a sleeping receiver even if its sender did not request it.
    pub(super) interrupt: bool,
    /// Whether a sender that may write may also fetch-and-op.
    pub(super) fetch: bool,
    /// The host whose operating system alone may write. `None` if any process with the key may
    /// write.
    pub(super) privileged: Option<u16>,
}
