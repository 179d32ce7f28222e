//! Layout of the control words that a Hamlyn card and its driver use to track which queues and
//! termini have sleepers.

use std::io;
use std::sync::Arc;

use hamlyn_abi::family::sleep::ULN_ARMED_STRIDE;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_abi::uapi::UlnQuery;
use hamlyn_sys::hamlyn::window::StatusWords;

use crate::core::socket::client::MappableRegion;
use crate::core::socket::sleeper::{Control, Count, Words};

/// The first version of the card's ABI with a terminus control area.
const WAKES_SENDERS: u32 = 0x0002_0003;

/// The queue control area, after the last window. The control area of the termini follows it, if
/// the card has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Size of the queue control area, in bytes.
    queues: usize,
    has_termini: bool,
}

impl Layout {
    fn of(card: &UlnQuery) -> Self {
        let queues = (card.queues.div_ceil(512).max(1) * HAMLYN_QUEUE_CONTROL_SIZE) as usize;
        Self { queues, has_termini: card.abi_version >= WAKES_SENDERS }
    }

    /// Returns the number of queues that have control words.
    fn queues(self) -> u32 {
        let armed = self.queues.saturating_sub(HAMLYN_QUEUE_CONTROL_ARMED as usize);
        (armed / ULN_ARMED_STRIDE as usize) as u32
    }

    pub(super) fn of_queue(queue: u32) -> Words {
        let armed = (HAMLYN_QUEUE_CONTROL_ARMED + queue * ULN_ARMED_STRIDE) as usize;
        Words { armed, wanted: None }
    }

    /// Returns `None` if the card does not wake callers that sleep until requests are complete.
    pub(super) fn of_terminus(self, terminus: u32) -> Option<Words> {
        let start = self.queues + (terminus * HAMLYN_TERMINUS_CONTROL_STRIDE) as usize;
        let at = |word: u32| start + word as usize;
        let words = Words { armed: at(HAMLYN_TERMINUS_ARMED), wanted: Some(at(HAMLYN_TERMINUS_WANTED)) };
        self.has_termini.then_some(words)
    }
}

/// Maps both areas.
pub(super) fn map(windows: &MappableRegion, card: &UlnQuery) -> io::Result<(Control, Layout)> {
    let layout = Layout::of(card);
    if layout.queues() < card.queues {
        return Err(io::Error::other(format!("{} notification queues have no control word", card.queues)));
    }
    let offset = u64::from(card.termini) * u64::from(HAMLYN_WINDOW_SIZE);
    let termini = if layout.has_termini { HAMLYN_TERMINUS_CONTROL_SIZE as usize } else { 0 };
    let control = windows.map(offset, layout.queues + termini)?;
    Ok((Control::new(control, HAMLYN_QUEUE_CONTROL_PENDING), layout))
}

/// A terminus' status words: the number of its requests that the card has completed.
#[derive(Debug)]
pub(super) struct Completed(pub(super) Arc<StatusWords>);

impl Count for Completed {
    fn count(&self) -> u32 {
        self.0.completed()
    }
}
