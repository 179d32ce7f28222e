//! Outgoing packets: answers first, then stored messages, as far as there are credits, then credits
//! alone.

use hamlyn_abi::dart::connection::DART_DROPPED_MEMORY;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_card::card::Place;
use hamlyn_card::ports::{DmaFault, Link, Ports, VolatileSlice};
use zerocopy::IntoBytes;

use crate::cells::{self, BLOCK, CELL, Message};
use crate::connections::{Connection, Question, Send, answer_length};
use crate::endpoints::Absent;
use crate::memory::Memory;
use crate::packet::{ANSWER, CREDITS, Head, MESSAGE};
use crate::telling::Telling;

/// The result of a connection's turn.
pub(crate) enum Turn {
    /// A packet has left. It may be a reply, and its message may have been reported in vain.
    Sent { is_reply: bool, told: Result<(), DmaFault> },
    /// The link has no room.
    Full,
    /// Its host accepts no more for now.
    Stopped,
    /// Its next message was dropped, which may have been reported in vain. There may be another.
    Dropped(Result<(), DmaFault>),
    /// It has nothing that can leave now.
    Nothing,
}

/// A connection that has its turn, and the parts of the card that it needs.
pub(crate) struct Outgoing<'a> {
    pub(crate) ports: &'a Ports<'a>,
    pub(crate) connection: &'a mut Connection,
    pub(crate) memory: &'a mut Memory,
    pub(crate) telling: &'a mut Telling,
}

impl Outgoing<'_> {
    /// Sends the connection's next packet from the host at `here`.
    pub(crate) fn send(&mut self, link: &mut dyn Link, here: Option<Place>) -> Turn {
        let host = self.connection.host;
        let (Some(peer), 0) = (self.connection.other_end(here), self.connection.broken) else {
            return Turn::Nothing;
        };
        if link.is_stopped(host) {
            return Turn::Stopped;
        }
        let owes = self.connection.owes();
        let (mut cells, mut question) = (Vec::new(), None);
        let kind = if let Some(reply) = self.connection.sending.replies.front() {
            reply.message.encode(peer.number, &mut cells);
            reply.kind
        } else if let Some(send) = self.connection.sending.sends.front().copied() {
            match self.gather(&send) {
                Ok(message) => {
                    question = Question::of(&message);
                    message.encode(peer.number, &mut cells);
                    MESSAGE
                }
                // A waiting message does not hold up credits, because the other end may wait for
                // these.
                Err(Turn::Nothing) if owes => CREDITS,
                Err(turn) => return turn,
            }
        } else if owes {
            CREDITS
        } else {
            return Turn::Nothing;
        };
        let Connection { sending, receiving, own_window, .. } = &mut *self.connection;
        let (number, done) = (sending.number, receiving.done);
        let mut head = Head::new(peer, number, done, (kind, *own_window)).of_cells(&cells);
        let packet = [head.as_mut_bytes(), &mut cells].map(VolatileSlice::from);
        if !link.send(host, &packet) {
            return Turn::Full;
        }
        sending.number = number.wrapping_add(1);
        receiving.told = done;
        let count = cells.len() / CELL;
        self.telling.add(DartStatistic::CellsSent, count as u64);
        self.sent(kind, count, question)
    }

    /// Returns the message that leaves next, if it can.
    fn gather(&mut self, send: &Send) -> Result<Message, Turn> {
        if send.is_long() {
            // This comes first, because gathering the message would be in vain.
            self.check_credits(cells::cells(send.length as usize))?;
        }
        let endpoint = self.connection.endpoint;
        let found = self.memory.endpoint(endpoint).ok_or(Turn::Nothing)?;
        let end = send.offset.checked_add(send.length.into());
        let inside = found.contains(send.offset, send.length.into());
        let Some(end) = end.filter(|_| inside || send.length == 0) else { return Err(self.drop_next()) };
        let bytes = if send.length == 0 { 0..0 } else { send.offset..end };
        let wait = &mut self.connection.sending.wait;
        let pieces = match self.memory.find(self.ports.dma, (endpoint, bytes), wait, false) {
            Ok(pieces) => pieces,
            Err(Absent::NoMemory) => return Err(self.drop_next()),
            Err(Absent::Missing(new)) => {
                self.telling.miss(self.ports, self.connection.number, new);
                return Err(Turn::Nothing);
            }
        };
        let mut data = vec![0; send.length as usize];
        let mut rest = &mut data[..];
        for piece in pieces {
            let (now, later) = rest.split_at_mut(piece.length);
            if self.ports.dma.read(piece.address, VolatileSlice::from(now)).is_err() {
                return Err(self.drop_next());
            }
            rest = later;
        }
        let mut message = Message { control: send.control, block: [0; BLOCK], body: Vec::new() };
        if send.is_long() {
            message.body = data;
        } else {
            message.block[..data.len()].copy_from_slice(&data);
            // The length of the answer is in the message's data.
            let answer = answer_length(&message).map_or(0, cells::cells);
            self.check_credits(cells::cells(0) + answer)?;
        }
        Ok(message)
    }

    /// Fails if the connection has no credits for `needed` cells.
    fn check_credits(&mut self, needed: usize) -> Result<(), Turn> {
        let Connection { sending, limit, is_system, .. } = &mut *self.connection;
        let is_poor = sending.on_their_way as usize + needed > *limit as usize;
        if !is_poor || *is_system {
            return Ok(());
        }
        if !std::mem::replace(&mut sending.starves, true) {
            self.telling.count(DartStatistic::CreditWaits);
        }
        Err(Turn::Nothing)
    }

    /// Drops the next message, whose data is not there.
    fn drop_next(&mut self) -> Turn {
        self.connection.sending.sends.pop_front();
        self.connection.sending.wait.clear();
        Turn::Dropped(self.connection.left(self.ports, self.telling, 1, Some(DART_DROPPED_MEMORY)))
    }

    /// Handles a packet of `cells` cells that has left. It may be a question.
    fn sent(&mut self, kind: u32, cells: usize, question: Option<Question>) -> Turn {
        match kind {
            CREDITS => Turn::Sent { is_reply: false, told: Ok(()) },
            MESSAGE => {
                self.connection.spend(cells, question);
                self.telling.count(DartStatistic::MessagesSent);
                let told = self.connection.left(self.ports, self.telling, 1, None);
                Turn::Sent { is_reply: false, told }
            }
            _ => {
                self.connection.sending.replies.pop_front();
                self.connection.sending.reply_cells -= cells;
                self.telling.add(DartStatistic::AnswersSent, (kind == ANSWER).into());
                Turn::Sent { is_reply: true, told: Ok(()) }
            }
        }
    }
}
