//! Slots: the names of message areas, and who may write to them (sections 2.2 and 2.7).

use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID, HAMLYN_MODE_PARANOID_ONE_SHOT};
use hamlyn_card::chassis::area::Area;

use crate::sram::Place;

/// A slot's mode of operation (section 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The slot's key and bounds.
    Normal,
    /// The metadata entry's key and bounds after the slot's bounds.
    Paranoid,
    /// Like paranoid; and an entry is locked by its first message.
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

/// An open slot. Only a command of the operating system makes or ends one.
#[derive(Debug)]
pub(super) struct Slot {
    /// Where it lies in the SRAM.
    pub(super) place: Place,
    /// Base and bound.
    pub(super) area: Area,
    /// The metadata area, with the number of its entries.
    pub(super) metadata: Option<(Area, u32)>,
    /// The address at which its owner sees the metadata area.
    pub(super) metadata_pointer: u64,
    pub(super) key: u64,
    pub(super) mode: Mode,
    /// The notification queue.
    pub(super) queue: Option<u32>,
    /// Its owner's number for it.
    pub(super) notification_index: u32,
    /// A message interrupts a sleeping receiver even if its sender did not ask.
    pub(super) interrupt: bool,
    /// Whether who may write may also fetch-and-op.
    pub(super) fetch: bool,
    /// The host whose operating system alone may write; none if any process may that has the key.
    pub(super) privileged: Option<u16>,
}
