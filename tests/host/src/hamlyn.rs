//! Driver and library operations on a Hamlyn card.

use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::request::HamlynRequest;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::card::Card;
use hamlyn_card::ports::Window;
use zerocopy::IntoBytes;

use crate::driver::{Commands, Refusal};
use crate::host::Host;

/// BAR of the doorbells.
const DOORBELLS: u8 = 4;

/// Outer result: whether the card was reached. Inner result: the card's answer.
pub type Done<T> = Result<Result<(), Refusal>, <T as Commands>::Error>;

/// The card's commands, each with its body.
pub trait HamlynCommands: Commands {
    /// Opens a terminus.
    fn open_terminus(&mut self, index: u32, body: &HamlynOpenTerminus) -> Done<Self> {
        self.command(HAMLYN_COMMAND_OPEN_TERMINUS, index, body)
    }

    /// Closes a terminus.
    fn close_terminus(&mut self, index: u32) -> Done<Self> {
        self.command(HAMLYN_COMMAND_CLOSE_TERMINUS, index, &[0_u8; 0])
    }

    /// Sets a send buffer of a terminus.
    fn set_send_buffer(&mut self, terminus: u32, tag: u32, area: UlnArea) -> Done<Self> {
        let body = HamlynSetSendBuffer { tag, reserved: 0, area };
        self.command(HAMLYN_COMMAND_SET_SEND_BUFFER, terminus, &body)
    }

    /// Clears a send buffer of a terminus.
    fn clear_send_buffer(&mut self, terminus: u32, tag: u32) -> Done<Self> {
        let body = HamlynSetSendBuffer { tag, ..Default::default() };
        self.command(HAMLYN_COMMAND_CLEAR_SEND_BUFFER, terminus, &body)
    }

    /// Opens a notification queue over a zeroed area.
    fn open_queue(&mut self, index: u32, area: UlnArea, entries: u32, vector: u32) -> Done<Self> {
        self.command(HAMLYN_COMMAND_OPEN_QUEUE, index, &HamlynOpenQueue { area, entries, vector })
    }

    /// Closes a notification queue.
    fn close_queue(&mut self, index: u32) -> Done<Self> {
        self.command(HAMLYN_COMMAND_CLOSE_QUEUE, index, &[0_u8; 0])
    }

    /// Opens a slot.
    fn open_slot(&mut self, index: u32, body: &HamlynOpenSlot) -> Done<Self> {
        self.command(HAMLYN_COMMAND_OPEN_SLOT, index, body)
    }

    /// Closes a slot.
    fn close_slot(&mut self, index: u32) -> Done<Self> {
        self.command(HAMLYN_COMMAND_CLOSE_SLOT, index, &[0_u8; 0])
    }
}

impl<T: Commands> HamlynCommands for T {}

/// Operations of a program that has mapped a terminus.
pub trait HamlynProgram {
    /// Posts a request, and rings the doorbell if the card sleeps.
    fn post(&mut self, terminus: u32, request: &HamlynRequest, body: &[u8]);

    /// Rings the doorbell of a terminus.
    fn ring(&mut self, terminus: u32);
}

impl<C: Card> HamlynProgram for Host<C> {
    fn post(&mut self, terminus: u32, request: &HamlynRequest, body: &[u8]) {
        let window = u64::from(terminus) * u64::from(HAMLYN_WINDOW_SIZE);
        let tail = self.window.load(window + u64::from(HAMLYN_WINDOW_TAIL));
        let entry = u64::from(tail % HAMLYN_WORK_QUEUE_ENTRIES) * u64::from(HAMLYN_ENTRY_SIZE);
        let entry = window + u64::from(HAMLYN_WINDOW_WORK_QUEUE) + entry;
        self.window.put(entry, request.as_bytes());
        self.window.put(entry + size_of::<HamlynRequest>() as u64, body);
        self.window.store(window + u64::from(HAMLYN_WINDOW_TAIL), tail.wrapping_add(1));
        if self.window.load(window + u64::from(HAMLYN_WINDOW_AWAKE)) == 0 {
            self.ring(terminus);
        }
    }

    fn ring(&mut self, terminus: u32) {
        let offset = u64::from(terminus) * u64::from(HAMLYN_DOORBELL_SIZE);
        self.with_card(|card, ports, _| card.register_write(ports, DOORBELLS, offset, 4, 1));
    }
}
