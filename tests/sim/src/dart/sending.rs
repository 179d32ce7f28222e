//! Packets that leave a card, and the state that the card writes about them.

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::dart::registers::DART_VECTOR_FIFO;
use zerocopy::IntoBytes;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::calling::is_question;
use super::explaining::explain;
use super::interpreter::is_implemented;
use super::ledger::{DROPPED, End, LEFT, Ledger, Piece, Question, Send, Spaces};
use super::model::{Dart, MOST_SENDS};
use super::packet::{BLOCK, CREDITS, Letter, MESSAGE, Message};

impl World<Dart> {
    /// Explains what a card has done since the last call. No packet has left it or arrived
    /// meanwhile.
    pub(super) fn settle(&mut self, host: usize) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let ledger = &mut self.model.ledgers[host];
        if machine.calls() == ledger.calls {
            return Ok(());
        }
        ledger.is_called |= machine.vectors.take().contains(&(DART_VECTOR_FIFO as u16));
        let (spaces, window) = (&mut self.model.spaces[host], self.model.options.window);
        explain(&machine, ledger, spaces, window, &mut self.model.executed)?;
        let Ledger { ends, refused, nowhere, .. } = ledger;
        for (index, end) in ends {
            let is = end.said;
            let dropped = is[DROPPED].wrapping_sub(end.state[DROPPED]);
            ensure(dropped as usize <= end.sends.len(), || {
                format!("host {host}: connection {index} dropped {dropped}: {end:?}")
            })?;
            let spaces = &self.model.spaces[host];
            for send in end.sends.iter().take(dropped as usize) {
                let is_gone = |piece: &Piece| {
                    let (space, page) = piece.page;
                    nowhere.contains(&piece.page) || refused.contains(&(space, page, false))
                };
                let pieces = end.data_of(send);
                let is_bad = pieces.is_none_or(|all| all.iter().any(is_gone) || spaces.bytes(&all).is_none());
                ensure(is_bad, || {
                    format!("host {host}: connection {index} dropped what could leave: {send:?}")
                })?;
            }
            end.dropped(dropped, DART_DROPPED_MEMORY);
            ensure(is == end.state, || {
                format!("host {host}: connection {index} says {is:x?}, and not {:x?}", end.state)
            })?;
        }
        ledger.forget_refusals();
        ledger.calls = machine.calls();
        Ok(())
    }

    /// Checks a packet that has left the card.
    pub(super) fn note_sent(&mut self, host: usize, to: u16, bytes: &[u8]) -> Result<(), Violation> {
        let wrong = |what: &str| Violation::new(format!("host {host}: a packet to {to} {what}"));
        let letter = Letter::read(bytes).ok_or_else(|| wrong("is no packet"))?;
        let window = self.model.options.window;
        let machine = self.hosts[host].machine.clone();
        let Ledger { ends, .. } = &mut self.model.ledgers[host];
        let meant = |end: &&mut End| end.host == to && end.peer == Some((letter.connection, letter.key));
        let end = ends.values_mut().find(meant).ok_or_else(|| wrong("is of no connection"))?;
        ensure(!end.is_broken(), || wrong("is of a broken connection"))?;
        let said = (letter.number, letter.done, letter.window);
        ensure(said == (end.numbered, end.done, window), || {
            format!("host {host}: a packet to {to} has number, credits and window {said:?}, and not {end:?}")
        })?;
        end.numbered += 1;
        if let Some((kind, message)) = end.replies.pop_front() {
            let is_it = letter.kind == kind && letter.cells == message.write(letter.connection);
            ensure(is_it, || format!("host {host}: an answer to {to} is {letter:?}, and not {message:?}"))?;
        } else if letter.kind == MESSAGE {
            // Earlier messages that could not leave are checked by `settle`.
            let dropped = machine.memory.peek_u32(end.area.address(DART_STATE_DROPPED.into()));
            let before = dropped.wrapping_sub(end.state[DROPPED]) as usize;
            let send = end.sends.remove(before).ok_or_else(|| wrong("is a message that nobody has sent"))?;
            end.state[LEFT] += 1;
            let message = end.message(&send, &self.model.spaces[host]).ok_or_else(|| wrong("has no data"))?;
            ensure(letter.cells == message.write(letter.connection), || {
                format!("host {host}: a message to {to} is {letter:?}, and not {message:?}")
            })?;
            if !end.is_system {
                end.pay(&message).ok_or_else(|| wrong("has no credits"))?;
            }
        } else {
            let is_worth_it = end.done.wrapping_sub(end.told) >= (end.limit / 8).max(1);
            let are_credits = letter.kind == CREDITS && letter.cells.is_empty() && is_worth_it;
            ensure(are_credits, || wrong("is nothing that is to be sent"))?;
        }
        end.told = end.done;
        self.model.packets += 1;
        self.model.looped += u64::from(host == usize::from(to));
        if self.model.captured.len() > 30 {
            self.model.captured.pop_front();
        }
        self.model.captured.push_back((to, bytes.to_vec()));
        let absent = self.hosts.get(usize::from(to)).is_some_and(|there| !there.uplink.is_up());
        self.model.flights.send((host as u16, to), [bytes.to_vec()], absent);
        self.settle(host)
    }

    /// Stores a message to the Send Registers as a process.
    pub(super) fn send(
        &mut self,
        host: usize,
        index: u32,
        control: DartControl,
        (offset, length): (u64, u32),
    ) -> Result<(), Violation> {
        self.settle(host)?;
        let machine = self.hosts[host].machine.clone();
        let is_up = self.hosts[host].uplink.is_up();
        let Some(end) = self.model.ledgers[host].ends.get_mut(&index) else { return Ok(()) };
        let limit = if may_be_long(&control) { DART_LONGEST } else { BLOCK as u32 };
        if end.is_broken() || end.is_system && !is_up {
            end.note_dropped(1, DART_DROPPED_BROKEN);
        } else if length > limit {
            end.note_dropped(1, DART_DROPPED_LENGTH);
        } else if end.sends.len() >= MOST_SENDS {
            end.note_dropped(1, DART_DROPPED_ROOM);
        } else {
            end.sends.push_back(Send { control, offset, length });
        }
        let words: [u64; 2] = zerocopy::transmute!(control);
        machine.store_page(index, DART_SEND_CONTROL, words[0])?;
        machine.store_page(index, DART_SEND_OPERAND, words[1])?;
        if offset % 8 == 0 && (offset | u64::from(length)) >> DART_SEND_DATA_SHIFT == 0 {
            machine.store_page(index, DART_SEND_DATA, offset << DART_SEND_DATA_SHIFT | u64::from(length))?;
        } else {
            machine.store_page(index, DART_SEND_OFFSET, offset)?;
            machine.store_page(index, DART_SEND_LENGTH, length.into())?;
        }
        self.settle(host)
    }

    /// Writes a question's data to a process's memory, and asks it.
    pub(super) fn ask(&mut self, host: usize, index: u32, control: DartControl) -> Result<(), Violation> {
        let answer = self.some_control();
        let asked = self.rng.range(0, 255) as u8;
        let Some(end) = self.model.ledgers[host].ends.get(&index) else { return Ok(()) };
        let offset = self.rng.below(end.endpoint.length / 4 - 8) * 4;
        let (page, place) = end.place(offset);
        self.store_memory(host, page, place, &[answer.as_bytes(), &[asked]].concat());
        // The card pads these 17 bytes with zeros, whatever is written behind them meanwhile. So no
        // question asks for more than the credits allow.
        self.send(host, index, control, (offset, 17))
    }
}

/// Returns whether a message may have more data than a block: a WRITE_MULTIPLE, a CALL that is not
/// a question, or a message for software.
fn may_be_long(control: &DartControl) -> bool {
    let opcode = control.opcode;
    !is_implemented(opcode) || opcode & 7 == 2 || opcode & 7 == 6 && !is_question(opcode) || opcode & 7 == 7
}

/// Returns whether its data is behind its block.
fn is_long(send: &Send) -> bool {
    let opcode = send.control.opcode;
    opcode & 7 == 2 && is_implemented(opcode) || send.length > BLOCK as u32
}

impl End {
    /// Returns where a message's data is, if it is inside the endpoint.
    fn data_of(&self, send: &Send) -> Option<Vec<Piece>> {
        let end = send.offset.checked_add(send.length.into())?;
        let is_inside = send.length == 0 || end <= self.endpoint.length;
        is_inside.then(|| self.pieces(send.offset, if send.length == 0 { 0 } else { end - send.offset }))
    }

    /// Returns the message that leaves now.
    fn message(&self, send: &Send, spaces: &Spaces) -> Option<Message> {
        let data = spaces.bytes(&self.data_of(send)?)?;
        let mut message = Message { control: send.control, block: [0; BLOCK], body: Vec::new() };
        if is_long(send) {
            message.body = data;
        } else {
            message.block[..data.len()].copy_from_slice(&data);
        }
        Some(message)
    }

    /// Pays for a message and its answer. Returns `None` if there are not enough credits.
    fn pay(&mut self, message: &Message) -> Option<()> {
        let (cells, owed) = (message.cells() as u32, message.answer_cells() as u32);
        self.on_their_way += cells + owed;
        self.spent = self.spent.wrapping_add(cells);
        self.questions.extend(Question::of(message));
        (self.on_their_way <= self.limit).then_some(())
    }
}
