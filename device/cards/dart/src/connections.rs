//! The Connection Table (section 3): the card's state for each end of a path between two hosts.

use std::collections::VecDeque;
use std::ops::Range;

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::DartControl;
use hamlyn_abi::family::command::{ULN_STATUS_BAD_INDEX, ULN_STATUS_BAD_LENGTH, ULN_STATUS_BAD_VALUE};
use hamlyn_card::card::Place;
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::{Dma, DmaFault, write_value};
use zerocopy::FromBytes;

use crate::cells::{self, Message};
use crate::endpoints::{PAGE, Wait};
use crate::model::Options;
use crate::opcode::{Call, Main, Opcode};

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Its number in the table.
    pub(crate) number: u32,
    pub(crate) endpoint: u32,
    pub(crate) host: u16,
    /// The key that packets for this connection must have.
    pub(crate) key: u64,
    /// The connection at the other host, once it is known.
    pub(crate) peer: Option<Peer>,
    /// Its address registers.
    pub(crate) window: Range<usize>,
    pub(crate) program: Range<usize>,
    pub(crate) events: Option<u32>,
    pub(crate) exceptions: Option<u32>,
    pub(crate) may_write: bool,
    pub(crate) may_read: bool,
    /// The connection is the operating system's: packets may be lost, and nothing on it waits.
    pub(crate) is_system: bool,
    /// The window of this card, in cells.
    pub(crate) own_window: u32,
    /// Number of cells that may be in flight: the smallest window of any card until the other end
    /// has announced its own, then the smaller of both.
    pub(crate) limit: u32,
    /// 0, or the reason why the connection has stopped taking and sending.
    pub(crate) broken: u32,
    pub(crate) sending: Sending,
    pub(crate) receiving: Receiving,
    state: Area,
}

/// A connection at the other host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) number: u32,
    pub(crate) key: u64,
}

/// A message that was stored to the Send Registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Send {
    pub(crate) control: DartControl,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Send {
    /// Returns whether its data is the message's body, and not its block.
    pub(crate) fn is_long(&self) -> bool {
        let main = Opcode::decode(self.control.opcode).map(|opcode| opcode.main);
        main == Some(Main::WriteMultiple) || self.length > cells::BLOCK as u32
    }
}

/// Returns whether a message may have more data than a block. The data may be written, be for the
/// program to write, or be for the software.
fn may_be_long(opcode: u32) -> bool {
    let main = Opcode::decode(opcode).map(|opcode| opcode.main);
    let is_long =
        |main| matches!(main, Main::WriteMultiple | Main::Call(Call { asks: false, .. }) | Main::Exception);
    main.is_none_or(is_long)
}

/// A packet that leaves without credits: an answer, or the report of a trap.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) kind: u32,
    pub(crate) message: Message,
}

#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// The Send Registers.
    pub(crate) registers: [u64; 3],
    pub(crate) sends: VecDeque<Send>,
    pub(crate) replies: VecDeque<Reply>,
    /// Number of cells of the replies.
    pub(crate) reply_cells: usize,
    /// Number of packets that have left.
    pub(crate) number: u32,
    /// Number of cells of messages that have left and are not done, and of answers that are not
    /// done.
    pub(crate) on_their_way: u32,
    /// Number of cells of messages among these, modulo 2^32: all that ever left, and those that are
    /// done.
    pub(crate) spent: u32,
    pub(crate) returned: u32,
    /// The first message waits for credits, and that was counted.
    pub(crate) starves: bool,
    pub(crate) wait: Wait,
    left: u32,
    dropped: u32,
    traps: u32,
    exceptions: u32,
    /// A process sleeps until messages have left.
    armed: bool,
}

/// A message that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) message: Message,
    pub(crate) is_answer: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// Number of packets that have arrived.
    pub(crate) number: u32,
    pub(crate) waiting: VecDeque<Arrived>,
    /// Number of cells of the messages that are not answers.
    pub(crate) cells: usize,
    /// Questions in flight, in the order in which they left. Their answers have the same order.
    pub(crate) questions: VecDeque<Question>,
    /// Number of cells of messages that are done, modulo 2^32, and the number that was last
    /// reported to the peer.
    pub(crate) done: u32,
    pub(crate) told: u32,
    pub(crate) wait: Wait,
}

impl Arrived {
    pub(crate) fn cells(&self) -> usize {
        cells::cells(self.message.body.len())
    }
}

/// A question that has left and has not been answered or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    /// What the question does there, and what its answer does here.
    control: DartControl,
    answer: DartControl,
    /// Length of the answer's body, in bytes. It is 0 if the answer is a block.
    length: usize,
}

impl Question {
    /// Returns the question in a message, or `None` if the message asks nothing.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let length = answer_length(message)?;
        let answer = DartControl::read_from_prefix(&message.block).map(|(control, _)| control);
        Some(Self { control: message.control, answer: answer.unwrap_or_default(), length })
    }

    /// Returns the number of cells of its answer.
    pub(crate) fn answer_cells(&self) -> usize {
        cells::cells(self.length)
    }

    /// Returns whether a message is its answer.
    pub(crate) fn is_answered_by(&self, message: &Message) -> bool {
        message.control == self.answer && message.body.len() == self.length
    }
}

/// Returns the length of the body of a message's answer, in bytes, which is 0 if the answer is a
/// block. Returns `None` if the message asks nothing.
pub(crate) fn answer_length(message: &Message) -> Option<usize> {
    match Opcode::decode(message.control.opcode)?.main {
        Main::Read | Main::Answer => Some(0),
        Main::ReadMultiple | Main::Call(Call { asks: true, .. }) => Some(asked(message)),
        _ => None,
    }
}

/// Returns how many bytes a read of several blocks asks for, at most as many as a message has.
pub(crate) fn asked(message: &Message) -> usize {
    let at = size_of::<DartControl>();
    let bytes = message.block[at..].first_chunk().copied().unwrap_or_default();
    (u32::from_le_bytes(bytes) as usize).min(cells::LONGEST)
}

impl Connection {
    /// Opens a connection at a card with these options. The caller has checked the endpoint and the
    /// queues.
    pub(crate) fn open(number: u32, body: &DartOpenConnection, options: &Options) -> Result<Self, Refusal> {
        Refusal::unless_zero(body.reserved.into())?;
        let known = DART_CONNECTION_WRITE | DART_CONNECTION_READ | DART_CONNECTION_SYSTEM;
        if body.flags & !known != 0 {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.flags, known));
        }
        if body.register_bound > DART_MAX_REGISTERS {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, body.register_bound, DART_MAX_REGISTERS));
        }
        let host = u16::try_from(body.host);
        Ok(Self {
            number,
            endpoint: body.endpoint,
            host: host.map_err(|_| Refusal::new(ULN_STATUS_BAD_VALUE, body.host, u16::MAX))?,
            key: body.key,
            peer: None,
            window: part(body.register_base, body.register_bound, options.registers)?,
            program: part(body.program_base, body.program_bound, options.program)?,
            events: queue(body.events),
            exceptions: queue(body.exceptions),
            may_write: body.flags & DART_CONNECTION_WRITE != 0,
            may_read: body.flags & DART_CONNECTION_READ != 0,
            is_system: body.flags & DART_CONNECTION_SYSTEM != 0,
            own_window: options.window,
            limit: options.window.min(DART_SMALLEST_WINDOW),
            broken: 0,
            sending: Sending::default(),
            receiving: Receiving::default(),
            state: Area::table(&body.state, 1, DART_STATE_SIZE)?,
        })
    }

    /// Appends a message to those that wait to leave. Fails with the reason why it is dropped.
    pub(crate) fn put(&mut self, length: u32) -> Result<(), u32> {
        let [control, operand, offset] = self.sending.registers;
        let [a, b, c, d, mask, indices @ ..] = control.to_le_bytes();
        let control = DartControl { opcode: u32::from_le_bytes([a, b, c, d]), mask, indices, operand };
        let limit = if may_be_long(control.opcode) { DART_LONGEST } else { cells::BLOCK as u32 };
        if self.broken != 0 {
            Err(DART_DROPPED_BROKEN)
        } else if length > limit {
            Err(DART_DROPPED_LENGTH)
        } else if self.sending.sends.len() >= DART_MAX_SENDS as usize {
            Err(DART_DROPPED_ROOM)
        } else {
            self.sending.sends.push_back(Send { control, offset, length });
            Ok(())
        }
    }

    /// Returns whether the connection has something to send, or enough credits to return for a
    /// packet.
    pub(crate) fn has_work(&self) -> bool {
        self.broken == 0
            && (self.peer.is_some() || self.is_system)
            && (!self.sending.sends.is_empty() || !self.sending.replies.is_empty() || self.owes())
    }

    /// Returns the pages that its messages wait for: those that arrive, and those that leave.
    pub(crate) fn waits_mut(&mut self) -> [&mut Wait; 2] {
        [&mut self.receiving.wait, &mut self.sending.wait]
    }

    /// Returns whether a message waits for pages.
    pub(crate) fn lacks_pages(&self) -> bool {
        !self.receiving.wait.missing.is_empty() || !self.sending.wait.missing.is_empty()
    }

    /// Returns the part of the endpoint that its messages may reach, as far as that depends on the
    /// sender.
    pub(crate) fn part(&self) -> Range<u64> {
        let start = u64::from(self.host) * PAGE;
        if self.is_system { start..start + PAGE } else { 0..u64::MAX }
    }

    /// Returns the other end of the connection, if that is known.
    pub(crate) fn other_end(&self, here: Option<Place>) -> Option<Peer> {
        if self.is_system {
            here.map(|here| Peer { number: here.host.into(), key: self.key })
        } else {
            self.peer
        }
    }

    /// Removes all messages that wait to leave. Returns their number.
    pub(crate) fn take_sends(&mut self) -> u32 {
        self.sending.wait.clear();
        std::mem::take(&mut self.sending.sends).len() as u32
    }

    /// Returns whether the peer must be sent credits. It may use the smallest window until it has
    /// received a packet.
    pub(crate) fn owes(&self) -> bool {
        let used = if self.sending.number == 0 { self.limit.min(DART_SMALLEST_WINDOW) } else { self.limit };
        self.receiving.done.wrapping_sub(self.receiving.told) >= (used / 8).max(1)
    }

    /// Handles the window of the other end's card. Returns `None` if no card has such a window.
    pub(crate) fn agree(&mut self, other: u32) -> Option<()> {
        self.limit = self.own_window.min(other);
        (other > 0).then_some(())
    }

    /// Returns whether there is room for a reply. Without a bound, replies that cannot leave would
    /// let the peer send ever more.
    pub(crate) fn takes_replies(&self) -> bool {
        self.sending.reply_cells < self.own_window as usize
    }

    pub(crate) fn reply(&mut self, kind: u32, message: Message) {
        self.sending.reply_cells += cells::cells(message.body.len());
        self.sending.replies.push_back(Reply { kind, message });
    }

    /// Records that a message that has arrived is done.
    pub(crate) fn done(&mut self, arrived: &Arrived) {
        let cells = arrived.cells();
        self.receiving.wait.clear();
        if arrived.is_answer {
            self.sending.on_their_way -= cells as u32;
        } else {
            self.receiving.cells -= cells;
            self.receiving.done = self.receiving.done.wrapping_add(cells as u32);
        }
    }

    /// Takes the credits for the message that has left, and for its answer.
    pub(crate) fn spend(&mut self, cells: usize, question: Option<Question>) {
        let sending = &mut self.sending;
        sending.sends.pop_front();
        sending.wait.clear();
        sending.starves = false;
        if self.is_system {
            return;
        }
        sending.spent = sending.spent.wrapping_add(cells as u32);
        sending.on_their_way += (cells + question.map_or(0, |question| question.answer_cells())) as u32;
        self.receiving.questions.extend(question);
    }

    /// Records that `count` messages have left, or were dropped and for which reason. Returns
    /// whether a process sleeps until then.
    pub(crate) fn write_left(
        &mut self,
        dma: &dyn Dma,
        count: u32,
        dropped: Option<u32>,
    ) -> Result<bool, DmaFault> {
        let sending = &mut self.sending;
        sending.left = sending.left.wrapping_add(count);
        let at = |word: u32| self.state.locate(dma, word.into());
        if let Some(why) = dropped {
            sending.dropped = sending.dropped.wrapping_add(count);
            write_value(dma, at(DART_STATE_DROPPED_WHY)?, why)?;
            dma.publish(at(DART_STATE_DROPPED)?, sending.dropped)?;
        }
        dma.publish(at(DART_STATE_LEFT)?, sending.left)?;
        Ok(std::mem::take(&mut sending.armed))
    }

    /// Arms the connection for a sleeping process that knows of `left` messages that have left.
    /// Returns whether the number has changed, or the connection is broken.
    pub(crate) fn arm(&mut self, left: u32) -> bool {
        let is_news = self.sending.left != left || self.broken != 0;
        self.sending.armed |= !is_news;
        is_news
    }

    /// Reports that a message had a trap at the receiver.
    pub(crate) fn trapped(&mut self, dma: &dyn Dma, trap: u32, opcode: u32) -> Result<(), DmaFault> {
        self.sending.traps = self.sending.traps.wrapping_add(1);
        let at = |word: u32| self.state.locate(dma, word.into());
        write_value(dma, at(DART_STATE_TRAP)?, [trap, opcode])?;
        dma.publish(at(DART_STATE_TRAPS)?, self.sending.traps)
    }

    /// Reports that a message of the other end had a trap here that no queue takes.
    pub(crate) fn excepted(&mut self, dma: &dyn Dma, trap: u32, opcode: u32) -> Result<(), DmaFault> {
        self.sending.exceptions = self.sending.exceptions.wrapping_add(1);
        let at = |word: u32| self.state.locate(dma, word.into());
        write_value(dma, at(DART_STATE_EXCEPTION)?, [trap, opcode])?;
        dma.publish(at(DART_STATE_EXCEPTIONS)?, self.sending.exceptions)
    }

    /// Records that the connection is broken: from now on it takes and sends nothing.
    pub(crate) fn write_broken(&mut self, dma: &dyn Dma, why: u32) -> Result<(), DmaFault> {
        self.broken = why;
        self.receiving.waiting.clear();
        self.receiving.wait.clear();
        self.receiving.questions.clear();
        self.sending.replies.clear();
        self.sending.armed = false;
        dma.publish(self.state.locate(dma, DART_STATE_BROKEN.into())?, why)
    }
}

fn part(base: u32, bound: u32, limit: u32) -> Result<Range<usize>, Refusal> {
    let end = base.checked_add(bound).filter(|end| *end <= limit);
    let end = end.ok_or(Refusal::new(ULN_STATUS_BAD_INDEX, base, limit))?;
    Ok(base as usize..end as usize)
}

fn queue(number: u32) -> Option<u32> {
    (number != DART_NO_QUEUE).then_some(number)
}
