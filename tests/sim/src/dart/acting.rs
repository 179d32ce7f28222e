//! Processes send random messages, store to registers and memory, and sleep.

use hamlyn_abi::dart::control::DartControl;
use zerocopy::IntoBytes;

use crate::engine::rng::Rng;
use crate::engine::violation::Violation;

use super::account::Account;
use super::calling::is_question;
use super::controls::{some_control, some_value};
use super::driving::QUEUES;
use super::end::Send;
use super::interpreter::is_implemented;

/// A process of a host.
#[derive(Debug)]
pub(super) struct Process<'a> {
    pub(super) account: &'a mut Account,
    pub(super) rng: &'a mut Rng,
}

impl Process<'_> {
    /// Sends a random message.
    pub(super) fn send_some(&mut self) -> Result<(), Violation> {
        let Some(index) = self.account.some_index(self.rng) else { return Ok(()) };
        let control = some_control(self.rng);
        if is_question(control.opcode) {
            return self.ask(index, control);
        }
        let is_softwares = control.opcode & 7 == 7 || !is_implemented(control.opcode);
        let length = match self.rng.below(8) {
            0 => self.rng.range(0, 40),
            1 => 0,
            2..5 if is_softwares => self.rng.range(1, 1500),
            _ if control.opcode & 7 == 2 => self.rng.range(1, 1500),
            2 if control.opcode & 7 == 6 => self.rng.range(1, 1500),
            _ => 32,
        };
        let offset = if self.rng.percent(2) { self.rng.next() } else { self.rng.below(3 * 4096) };
        self.account.send(index, Send { control, offset, length })
    }

    /// Writes a question's data to memory, and asks it.
    fn ask(&mut self, index: u32, control: DartControl) -> Result<(), Violation> {
        let answer = some_control(self.rng);
        let asked = self.rng.range(0, 255) as u8;
        let Some(end) = self.account.end(index) else { return Ok(()) };
        let offset = self.rng.below(end.terms().endpoint.length / 4 - 8) * 4;
        let (page, place) = end.terms().place(offset);
        self.account.pages.store(page, place, &[answer.as_bytes(), &[asked]].concat());
        // The card pads these 17 bytes with zeros, whatever is written behind them meanwhile. So no
        // question asks for more than the credits allow.
        self.account.send(index, Send { control, offset, length: 17 })
    }

    /// Stores to a register of its window, or to its memory.
    pub(super) fn store_some(&mut self) -> Result<(), Violation> {
        let Some(index) = self.account.some_index(self.rng) else { return Ok(()) };
        let Some(end) = self.account.end(index) else { return Ok(()) };
        let (page, place) = end.terms().place(self.rng.below(end.terms().endpoint.length));
        let registers = end.terms().window.len();
        if registers == 0 || self.rng.percent(50) {
            self.account.pages.store(page, place, &self.rng.bytes(40));
            return Ok(());
        }
        let number = self.rng.index(registers);
        self.account.store_register(index, number, some_value(self.rng))
    }

    /// Sleeps until messages of a connection have left, or on a queue until there is a record.
    pub(super) fn doze(&mut self) -> Result<(), Violation> {
        if !self.rng.percent(50) {
            return self.account.doze_on_queue(self.rng.range(0, QUEUES - 1));
        }
        self.account.settle()?;
        let Some(index) = self.account.some_index(self.rng) else { return Ok(()) };
        self.account.doze_until_left(index, self.rng.percent(20).into())
    }
}
