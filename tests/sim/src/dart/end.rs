//! One end of a connection: messages that wait to leave, messages that have arrived, and the state
//! that the card writes for the owner.

use std::collections::VecDeque;

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::family::area::UlnArea;

use crate::engine::area::Area;
use crate::engine::memory::{PAGE, Write};
use crate::engine::violation::{Violation, ensure};

use super::calling::is_question;
use super::interpreter::is_implemented;
use super::machine::Machine;
use super::packet::{ANSWER, BLOCK, CREDITS, Letter, MESSAGE, Message, TRAPPED};
use super::pages::Pages;
use super::terms::{Piece, Terms};

/// Maximum number of messages of a connection that wait to leave.
const MOST_SENDS: usize = 64;

/// The expected fate of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Discarded,
    Taken,
    /// A message of an operating system, which is executed or passed over.
    System,
}

/// A message that has arrived and is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) message: Message,
    pub(super) is_answer: bool,
}

/// An outstanding question: its control, and the control and length of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question {
    control: DartControl,
    answer: DartControl,
    length: usize,
}

impl Question {
    fn of(message: &Message) -> Option<Self> {
        let length = message.answer_length()?;
        Some(Self { control: message.control, answer: message.answer_control(), length })
    }
}

/// A message that was stored to the Send Registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Send {
    pub(super) control: DartControl,
    pub(super) offset: u64,
    pub(super) length: u32,
}

impl Send {
    /// Returns whether it has more data than it may have. A WRITE_MULTIPLE, a CALL that is not a
    /// question and a message for software may have more than a block.
    fn is_too_long(&self) -> bool {
        let opcode = self.control.opcode;
        let may_be_long = !is_implemented(opcode)
            || opcode & 7 == 2
            || opcode & 7 == 6 && !is_question(opcode)
            || opcode & 7 == 7;
        self.length > if may_be_long { DART_LONGEST } else { BLOCK as u32 }
    }

    /// Returns where its data is, if it is inside the endpoint.
    fn data(&self, terms: &Terms) -> Option<Vec<Piece>> {
        let end = self.offset.checked_add(self.length.into())?;
        let is_inside = self.length == 0 || end <= terms.endpoint.length;
        is_inside.then(|| terms.pieces(self.offset, if self.length == 0 { 0 } else { end - self.offset }))
    }

    /// Returns the message that leaves now.
    fn message(&self, terms: &Terms, pages: &Pages) -> Option<Message> {
        let data = pages.bytes(&self.data(terms)?)?;
        let mut message = Message { control: self.control, block: [0; BLOCK], body: Vec::new() };
        let opcode = self.control.opcode;
        let is_behind_block = opcode & 7 == 2 && is_implemented(opcode) || self.length > BLOCK as u32;
        if is_behind_block {
            message.body = data;
        } else {
            message.block[..data.len()].copy_from_slice(&data);
        }
        Some(message)
    }
}

/// State of a connection that the card writes for its owner, in words.
type State = [u32; 10];

/// Words of [`State`].
const LEFT: usize = DART_STATE_LEFT as usize / 4;
const DROPPED: usize = DART_STATE_DROPPED as usize / 4;
const WHY: usize = DART_STATE_DROPPED_WHY as usize / 4;
const TRAPS: usize = DART_STATE_TRAPS as usize / 4;
const TRAP: usize = DART_STATE_TRAP as usize / 4;
const TRAP_OPCODE: usize = DART_STATE_TRAP_OPCODE as usize / 4;
const BROKEN: usize = DART_STATE_BROKEN as usize / 4;
const EXCEPTIONS: usize = DART_STATE_EXCEPTIONS as usize / 4;
const EXCEPTION: usize = DART_STATE_EXCEPTION as usize / 4;
const EXCEPTION_OPCODE: usize = DART_STATE_EXCEPTION_OPCODE as usize / 4;

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    terms: Terms,
    peer: Option<(u32, u64)>,
    state: State,
    /// The state as written by the card.
    written: State,
    area: Area,
    // Sending side.
    sends: VecDeque<Send>,
    replies: VecDeque<(u32, Message)>,
    numbered: u32,
    on_their_way: u32,
    spent: u32,
    returned: u32,
    // Receiving side.
    expected: u32,
    waiting: VecDeque<Arrived>,
    questions: VecDeque<Question>,
    /// Maximum number of cells in flight, according to the other end.
    limit: u32,
    done: u32,
    told: u32,
    /// `sleeper`: its owner sleeps until the number of messages that have left differs from this.
    /// `woken`: the driver was notified since.
    sleeper: Option<u32>,
    woken: bool,
    /// The driver was notified that it is broken.
    break_told: bool,
    /// The driver was not notified yet of exceptions that no queue took. For an operating system's
    /// connection: of messages that were executed.
    has_news: bool,
}

impl End {
    /// Creates an end whose state is in `area`. The end of an operating system is connected, and
    /// has the same key everywhere.
    pub(super) fn new(machine: &Machine, terms: Terms, area: Area) -> Self {
        let mut state = State::default();
        state[BROKEN] = if machine.is_linked() || terms.is_system { 0 } else { DART_BROKEN_LINK };
        Self {
            peer: terms.is_system.then_some((machine.id.into(), terms.key)),
            terms,
            state,
            written: State::default(),
            area,
            sends: VecDeque::new(),
            replies: VecDeque::new(),
            numbered: 0,
            on_their_way: 0,
            spent: 0,
            returned: 0,
            expected: 0,
            waiting: VecDeque::new(),
            questions: VecDeque::new(),
            limit: machine.window().min(DART_SMALLEST_WINDOW),
            done: 0,
            told: 0,
            sleeper: None,
            woken: false,
            break_told: false,
            has_news: false,
        }
    }

    /// Frees the memory of its state, which the card may no longer access.
    pub(super) fn forget(&self, machine: &Machine) {
        machine.forget_state(&self.area);
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    pub(super) fn state_area(&self) -> UlnArea {
        self.area.abi()
    }

    /// Notes the other end's number and key. Returns `false` if they are known.
    pub(super) fn connect(&mut self, peer: (u32, u64)) -> bool {
        self.peer.replace(self.peer.unwrap_or(peer)).is_none()
    }

    /// Returns whether packets with this number and key, to this host, are its own.
    pub(super) fn is_connected(&self, host: u16, peer: (u32, u64)) -> bool {
        (self.terms.host, self.peer) == (host, Some(peer))
    }

    /// Notes that a queue was closed. It takes no more records of this end.
    pub(super) fn lose_queue(&mut self, number: u32) {
        self.terms.events = self.terms.events.filter(|queue| *queue != number);
        self.terms.exceptions = self.terms.exceptions.filter(|queue| *queue != number);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.state[BROKEN] != 0
    }

    /// Breaks the connection: it no longer takes or sends anything.
    pub(super) fn break_off(&mut self, why: u32) {
        if self.terms.is_system || self.is_broken() {
            return;
        }
        self.state[BROKEN] = why;
        self.waiting.clear();
        self.replies.clear();
        self.drop_first(self.sends.len() as u32, DART_DROPPED_BROKEN);
    }

    /// Notes that the port is going down.
    pub(super) fn unplug(&mut self) {
        if self.terms.is_system {
            self.drop_first(self.sends.len() as u32, DART_DROPPED_BROKEN);
        }
        self.break_off(DART_BROKEN_LINK);
    }

    /// Drops the first `count` messages that wait to leave.
    fn drop_first(&mut self, count: u32, why: u32) {
        self.sends.drain(..count as usize);
        self.note_dropped(count, why);
    }

    fn note_dropped(&mut self, count: u32, why: u32) {
        if count > 0 {
            self.state[LEFT] += count;
            self.state[DROPPED] += count;
            self.state[WHY] = why;
        }
    }

    fn note_trap(&mut self, trap: u32, opcode: u32) {
        self.state[TRAPS] += 1;
        (self.state[TRAP], self.state[TRAP_OPCODE]) = (trap, opcode);
    }

    /// Notes what the card has written to the state.
    pub(super) fn note_written(&mut self, write: &Write) {
        let start = self.area.address(0);
        if write.address / PAGE != start / PAGE {
            return;
        }
        for (word, at) in write.bytes.chunks_exact(4).zip((write.address - start) as usize / 4..) {
            if let Some(written) = self.written.get_mut(at) {
                *written = word.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            }
        }
    }

    /// Checks the state that the card has written. It may have dropped messages whose data is
    /// absent.
    pub(super) fn settle(&mut self, name: impl Fn() -> String, pages: &Pages) -> Result<(), Violation> {
        let is = self.written;
        let dropped = is[DROPPED].wrapping_sub(self.state[DROPPED]);
        ensure(dropped as usize <= self.sends.len(), || format!("{} dropped {dropped}: {self:?}", name()))?;
        for send in self.sends.iter().take(dropped as usize) {
            let is_gone = |piece: &Piece| pages.is_refused(piece.page, false);
            let pieces = send.data(&self.terms);
            let is_bad = pieces.is_none_or(|all| all.iter().any(is_gone) || pages.bytes(&all).is_none());
            ensure(is_bad, || format!("{} dropped what could leave: {send:?}", name()))?;
        }
        self.drop_first(dropped, DART_DROPPED_MEMORY);
        ensure(is == self.state, || format!("{} says {is:x?}, and not {:x?}", name(), self.state))
    }

    /// Adds a message to those that wait to leave, or drops it.
    pub(super) fn send(&mut self, send: Send, is_linked: bool) {
        if self.is_broken() || self.terms.is_system && !is_linked {
            self.note_dropped(1, DART_DROPPED_BROKEN);
        } else if send.is_too_long() {
            self.note_dropped(1, DART_DROPPED_LENGTH);
        } else if self.sends.len() >= MOST_SENDS {
            self.note_dropped(1, DART_DROPPED_ROOM);
        } else {
            self.sends.push_back(send);
        }
    }

    /// Checks a packet that has left the card.
    pub(super) fn note_sent(
        &mut self,
        machine: &Machine,
        pages: &Pages,
        letter: &Letter,
    ) -> Result<(), Violation> {
        let (host, to, window) = (machine.id, self.terms.host, machine.window());
        let wrong = |what: &str| Violation::new(format!("host {host}: a packet to {to} {what}"));
        ensure(!self.is_broken(), || wrong("is of a broken connection"))?;
        let said = (letter.number, letter.done, letter.window);
        ensure(said == (self.numbered, self.done, window), || {
            format!("host {host}: a packet to {to} has number, credits and window {said:?}, and not {self:?}")
        })?;
        self.numbered += 1;
        if let Some((kind, message)) = self.replies.pop_front() {
            let is_it = letter.kind == kind && letter.cells == message.write(letter.connection);
            ensure(is_it, || format!("host {host}: an answer to {to} is {letter:?}, and not {message:?}"))?;
        } else if letter.kind == MESSAGE {
            // Earlier messages that could not leave are checked by `settle`.
            let dropped = machine.memory.peek_u32(self.area.address(DART_STATE_DROPPED.into()));
            let before = dropped.wrapping_sub(self.state[DROPPED]) as usize;
            let send = self.sends.remove(before).ok_or_else(|| wrong("is a message that was not sent"))?;
            self.state[LEFT] += 1;
            let message = send.message(&self.terms, pages).ok_or_else(|| wrong("has no data"))?;
            ensure(letter.cells == message.write(letter.connection), || {
                format!("host {host}: a message to {to} is {letter:?}, and not {message:?}")
            })?;
            if !self.terms.is_system {
                self.pay(&message).ok_or_else(|| wrong("has no credits"))?;
            }
        } else {
            let is_worth_it = self.done.wrapping_sub(self.told) >= (self.limit / 8).max(1);
            let are_credits = letter.kind == CREDITS && letter.cells.is_empty() && is_worth_it;
            ensure(are_credits, || wrong("is not due"))?;
        }
        self.told = self.done;
        Ok(())
    }

    /// Pays for a message and its answer. Returns `None` if there are not enough credits.
    fn pay(&mut self, message: &Message) -> Option<()> {
        let (cells, owed) = (message.cells() as u32, message.answer_cells() as u32);
        self.on_their_way += cells + owed;
        self.spent = self.spent.wrapping_add(cells);
        self.questions.extend(Question::of(message));
        (self.on_their_way <= self.limit).then_some(())
    }

    /// Returns the number, the credits and the key that the next packet must have.
    pub(super) fn expected(&self) -> (u32, u32, u64) {
        (self.expected, self.returned, self.terms.key)
    }

    /// Takes in a packet. Returns its expected fate.
    pub(super) fn receive(&mut self, source: u16, letter: &Letter, window: u32) -> Fate {
        if self.terms.host != source || self.terms.key != letter.key || self.is_broken() {
            return Fate::Discarded;
        }
        if self.terms.is_system {
            let message = Message::read(letter.connection, &letter.cells);
            let message = message.filter(|message| message.answer_length().is_none());
            let Some(message) = message.filter(|_| letter.kind == MESSAGE) else { return Fate::Discarded };
            self.waiting.push_back(Arrived { message, is_answer: false });
            return Fate::System;
        }
        if letter.number != self.expected {
            self.break_off(DART_BROKEN_LOST);
        } else if self.takes(letter, window).is_none() {
            self.break_off(DART_BROKEN_PEER);
        }
        Fate::Taken
    }

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
                let requests = self.waiting.iter().filter(|arrived| !arrived.is_answer);
                let waiting: usize = requests.map(|arrived| arrived.message.cells()).sum();
                let fits = waiting + message.cells() <= window as usize;
                self.waiting.push_back(Arrived { message, is_answer: false });
                fits.then_some(())
            }
            ANSWER => {
                let message = message?;
                let question = self.questions.pop_front()?;
                let is_its = (question.answer, question.length) == (message.control, message.body.len());
                is_its.then_some(())?;
                self.waiting.push_back(Arrived { message, is_answer: true });
                Some(())
            }
            kind => {
                let message = message.filter(|message| message.body.is_empty())?;
                let trap = kind.checked_sub(TRAPPED).filter(|trap| (1..16).contains(trap))?;
                if let Some(question) = Question::of(&message) {
                    self.questions.pop_front().filter(|first| *first == question)?;
                    self.on_their_way -= message.answer_cells() as u32;
                }
                self.note_trap(trap, message.control.opcode);
                Some(())
            }
        }
    }

    /// Returns a waiting message, by its place.
    pub(super) fn waiting(&self, place: usize) -> Option<&Arrived> {
        self.waiting.get(place)
    }

    /// Removes an operating system's message that was not executed.
    pub(super) fn pass_over(&mut self) -> Option<Arrived> {
        self.waiting.pop_front()
    }

    /// Finishes the first waiting message. Returns whether that is a reason to notify the driver.
    pub(super) fn finish(&mut self, reply: Option<(u32, Message)>, trap: Option<u32>) -> bool {
        let Some(Arrived { message, is_answer }) = self.waiting.pop_front() else { return false };
        let (cells, opcode) = (message.cells() as u32, message.control.opcode);
        let exception = trap.filter(|_| self.terms.exceptions.is_none() && !self.terms.is_system);
        if let Some(trap) = exception {
            self.state[EXCEPTIONS] += 1;
            (self.state[EXCEPTION], self.state[EXCEPTION_OPCODE]) = (trap, opcode);
        }
        if is_answer {
            self.on_their_way -= cells;
            trap.into_iter().for_each(|trap| self.note_trap(trap, opcode));
        } else if !self.terms.is_system {
            self.done = self.done.wrapping_add(cells);
        }
        self.replies.extend(reply);
        let is_news = exception.is_some() || self.terms.is_system && !is_answer;
        self.has_news |= is_news;
        is_news
    }

    /// Returns the number of cells of replies.
    pub(super) fn reply_cells(&self) -> usize {
        self.replies.iter().map(|(_, message)| message.cells()).sum()
    }

    /// Puts the owner to sleep until messages have left. The owner may have an old count of them.
    /// Returns the count.
    pub(super) fn doze(&mut self, stale: u32) -> u32 {
        let known = self.state[LEFT].wrapping_sub(stale);
        (self.sleeper, self.woken) = (Some(known), false);
        known
    }

    /// Notes that the driver was notified of messages that have left, or of a break. Returns
    /// whether it is the first time since a break, which needs no other reason.
    pub(super) fn wake(&mut self) -> bool {
        self.woken = true;
        self.is_broken() && !std::mem::replace(&mut self.break_told, true)
    }

    /// Returns whether the driver was not notified yet of a break.
    pub(super) fn has_untold_break(&self) -> bool {
        self.is_broken() && !self.break_told
    }

    /// Notes that the driver was notified of exceptions, or of an operating system's messages.
    pub(super) fn clear_news(&mut self) {
        self.has_news = false;
    }

    /// Returns whether no message waits to leave or to be executed.
    pub(super) fn is_calm(&self) -> bool {
        self.sends.is_empty() && self.waiting.is_empty()
    }

    /// Returns whether nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.is_calm() && self.replies.is_empty()
    }

    /// Checks that its owner was notified of all that it waits for.
    pub(super) fn check_at_rest(&self, name: impl Fn() -> String) -> Result<(), Violation> {
        let is_news = self.is_broken() || self.sleeper.is_some_and(|known| known != self.state[LEFT]);
        let sleeps = self.sleeper.is_some() && !self.woken && is_news;
        ensure(!sleeps && !self.has_news, || format!("{}: the driver was not told: {self:?}", name()))
    }
}
