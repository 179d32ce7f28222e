//! Packets that reach a card, and their expected effects.

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::statistics::DartStatistic as Counter;
use hamlyn_card::ports::{Packet, VolatileSlice};

use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::ledger::{self, End, Question};
use super::model::Dart;
use super::packet::{ANSWER, CREDITS, Letter, MESSAGE, Message, TRAPPED};

/// The expected fate of a packet.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Discarded,
    Taken,
    /// A message of an operating system, which is executed or passed over.
    System,
}

impl World<Dart> {
    /// Hands a packet to its card. It must be the next one that was sent from its source.
    pub(super) fn take(&mut self, host: usize, arrived: Arrived) -> Result<(), Violation> {
        self.settle(host)?;
        let Arrived { source, mut bytes } = arrived;
        ensure(self.model.flights.take((source, host as u16), [&bytes]), || {
            format!("host {host}: a packet of {} bytes from {source} is not the next", bytes.len())
        })?;
        let machine = self.hosts[host].machine.clone();
        let (fate, index) = self.judge(host, source, &bytes);
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        let before = machine.counters();
        machine.with_card(|card, ports| card.packet_arrived(ports, &packet))?;
        let after = machine.counters();
        let more = |counter: Counter| after[usize::from(counter)] - before[usize::from(counter)];
        let (discarded, executed) =
            (more(Counter::Discarded), more(Counter::Executed) + more(Counter::Exceptions));
        let is_it = match fate {
            Fate::Discarded => discarded == 1 && more(Counter::PacketsArrived) == 0,
            Fate::Taken => discarded == 0,
            Fate::System => discarded + executed == 1,
        };
        ensure(is_it, || {
            format!(
                "host {host}: a packet from {source} is {fate:?}, and was discarded {discarded} times, executed {executed}"
            )
        })?;
        if fate == Fate::System && discarded == 1 {
            // It has a trap, or finds no room.
            let end = self.model.ledgers[host].ends.get_mut(&index);
            let message = end.and_then(|end| end.waiting.pop_front());
            self.check_passed_over(host, index, message)?;
        }
        self.settle(host)
    }

    /// Returns the expected fate of a packet from all that is known of it, and updates the ledger
    /// accordingly.
    fn judge(&mut self, host: usize, source: u16, bytes: &[u8]) -> (Fate, u32) {
        let window = self.model.options.window;
        let Some(letter) = Letter::read(bytes) else { return (Fate::Discarded, 0) };
        let index = letter.connection;
        let Some(end) = self.model.ledgers[host].ends.get_mut(&index) else { return (Fate::Discarded, 0) };
        if end.host != source || end.key != letter.key || end.is_broken() {
            return (Fate::Discarded, index);
        }
        if end.is_system {
            let message =
                Message::read(index, &letter.cells).filter(|message| message.answer_length().is_none());
            let Some(message) = message.filter(|_| letter.kind == MESSAGE) else {
                return (Fate::Discarded, index);
            };
            end.waiting.push_back(ledger::Arrived { message, is_answer: false });
            return (Fate::System, index);
        }
        if letter.number != end.expected {
            end.break_off(DART_BROKEN_LOST);
        } else if end.takes(&letter, window).is_none() {
            end.break_off(DART_BROKEN_PEER);
        }
        (Fate::Taken, index)
    }
}

impl End {
    /// Takes in the next packet. Returns `None` if it is invalid.
    fn takes(&mut self, letter: &Letter, window: u32) -> Option<()> {
        self.expected = self.expected.wrapping_add(1);
        self.limit = window.min(letter.window);
        if letter.window == 0 {
            return None;
        }
        let new = letter.done.wrapping_sub(self.returned);
        if new > self.spent.wrapping_sub(self.returned) {
            return None;
        }
        self.returned = letter.done;
        self.on_their_way -= new;
        let message = Message::read(letter.connection, &letter.cells);
        match letter.kind {
            CREDITS => letter.cells.is_empty().then_some(()),
            MESSAGE => {
                let message = message?;
                let fits = self.waiting_cells() + message.cells() <= window as usize;
                self.waiting.push_back(ledger::Arrived { message, is_answer: false });
                fits.then_some(())
            }
            ANSWER => {
                let message = message?;
                let question = self.questions.pop_front()?;
                let is_its = (question.answer, question.length) == (message.control, message.body.len());
                is_its.then_some(())?;
                self.waiting.push_back(ledger::Arrived { message, is_answer: true });
                Some(())
            }
            kind => {
                let message = message.filter(|message| message.body.is_empty())?;
                let trap = kind.checked_sub(TRAPPED).filter(|trap| (1..16).contains(trap))?;
                if let Some(question) = Question::of(&message) {
                    self.questions.pop_front().filter(|first| *first == question)?;
                    self.on_their_way -= message.answer_cells() as u32;
                }
                self.trapped(trap, message.control.opcode);
                Some(())
            }
        }
    }
}
