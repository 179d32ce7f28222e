//! Outgoing packets: answers first, then stored messages, as far as there are credits, then credits
//! alone.

use hamlyn_abi::dart::connection::{DART_DROPPED_BROKEN, DART_DROPPED_MEMORY, DART_SEND_LENGTH};
use hamlyn_abi::dart::connection::{
    DART_PAGE_REGISTERS, DART_PAGE_SIZE, DART_SEND_CONTROL, DART_SEND_OFFSET,
};
use hamlyn_abi::dart::fifo::DART_FIFO_LEFT;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_card::card::Progress;
use hamlyn_card::ports::{Link, Ports, VolatileSlice};
use zerocopy::IntoBytes;

use crate::DartCard;
use crate::cells::{self, BLOCK, CELL, Message};
use crate::connections::{Connection, Question, Send, answer_length};
use crate::endpoints::Absent;
use crate::packet::{ANSWER, CREDITS, Head, MESSAGE};

/// The value of a load from a place of a connection's page where nothing is.
const ONES: u64 = u64::MAX;

/// The result of a connection's turn.
enum Turn {
    Sent,
    /// The link has no room.
    Full,
    /// Its host accepts no more for now.
    Stopped,
    /// Its next message was dropped. There may be another.
    Dropped,
    /// It has nothing that can leave now.
    Nothing,
}

impl DartCard {
    /// Gives a connection a turn, if it has something to send.
    pub(super) fn stir(&mut self, index: u32) {
        let Some(Some(connection)) = self.connections.get(index as usize) else { return };
        if connection.has_work() && self.in_turn.insert(index) {
            self.turns.push_back(index);
        }
    }

    /// Handles a store to a connection's page.
    pub(super) fn page_write(&mut self, ports: &Ports<'_>, offset: u64, width: u8, value: u64) {
        let (index, place) =
            (offset / u64::from(DART_PAGE_SIZE), (offset % u64::from(DART_PAGE_SIZE)) as u32);
        let index = index as u32;
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return };
        match (place, width) {
            (DART_SEND_CONTROL..=DART_SEND_OFFSET, 8) => {
                connection.sending.registers[place as usize / 8] = value;
            }
            (DART_SEND_LENGTH, 4 | 8) => {
                let length = u32::try_from(value).unwrap_or(u32::MAX);
                let is_cut = connection.is_system && self.here.is_none();
                match if is_cut { Err(DART_DROPPED_BROKEN) } else { connection.put(length) } {
                    Ok(()) => self.stir(index),
                    Err(why) => self.left(ports, index, 1, Some(why)),
                }
            }
            (DART_PAGE_REGISTERS.., 8) => {
                let register = self.register(index, place);
                if let Some(register) = register.and_then(|register| self.registers.get_mut(register)) {
                    *register = value;
                }
            }
            _ => tracing::debug!(offset, value, "a store to nothing of a connection's page"),
        }
    }

    /// Handles a load from a connection's page.
    pub(super) fn page_read(&self, offset: u64, width: u8) -> u64 {
        let (index, place) =
            (offset / u64::from(DART_PAGE_SIZE), (offset % u64::from(DART_PAGE_SIZE)) as u32);
        let register = if width == 8 { self.register(index as u32, place) } else { None };
        register.and_then(|register| self.registers.get(register)).copied().unwrap_or(ONES)
    }

    /// Returns the address register at this place of a connection's page.
    fn register(&self, index: u32, place: u32) -> Option<usize> {
        let number = place.checked_sub(DART_PAGE_REGISTERS)? as usize / 8;
        let connection = self.connections.get(index as usize)?.as_ref()?;
        (number < connection.window.len()).then_some(connection.window.start + number)
    }

    /// Records that `count` messages have left, or were dropped.
    pub(super) fn left(&mut self, ports: &Ports<'_>, index: u32, count: u32, dropped: Option<u32>) {
        if dropped.is_some() {
            self.counters.add(DartStatistic::MessagesDropped, count.into());
        }
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return };
        match connection.left(ports.dma, count, dropped) {
            Ok(true) => self.tell(ports, DART_FIFO_LEFT | index),
            Ok(false) => {}
            Err(fault) => self.note(ports, index, Err(fault)),
        }
    }

    pub(super) fn send_next(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        let resumptions = link.resumptions();
        if std::mem::replace(&mut self.resumptions, resumptions) != resumptions {
            for index in std::mem::take(&mut self.stopped) {
                self.stir(index);
            }
        }
        while let Some(index) = self.turns.pop_front() {
            match self.turn(ports, link, index) {
                Turn::Full => {
                    self.turns.push_front(index);
                    return Progress::LinkFull;
                }
                Turn::Sent => {
                    self.in_turn.remove(&index);
                    self.stir(index);
                    return Progress::Worked;
                }
                Turn::Stopped => {
                    self.in_turn.remove(&index);
                    self.stopped.insert(index);
                }
                Turn::Dropped => {
                    self.in_turn.remove(&index);
                    self.stir(index);
                }
                Turn::Nothing => {
                    self.in_turn.remove(&index);
                }
            }
        }
        Progress::Idle
    }

    fn turn(&mut self, ports: &Ports<'_>, link: &mut dyn Link, index: u32) -> Turn {
        let Some(Some(connection)) = self.connections.get(index as usize) else { return Turn::Nothing };
        let (host, other_end) = (connection.host, connection.other_end(self.here));
        let (Some(peer), 0) = (other_end, connection.broken) else { return Turn::Nothing };
        if link.is_stopped(host) {
            return Turn::Stopped;
        }
        let owes = connection.owes();
        let (mut cells, mut question) = (Vec::new(), None);
        let kind = if let Some(reply) = connection.sending.replies.front() {
            reply.message.encode(peer.number, &mut cells);
            reply.kind
        } else if let Some(send) = connection.sending.sends.front().copied() {
            match self.gather(ports, index, &send) {
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
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return Turn::Nothing };
        let (number, done) = (connection.sending.number, connection.receiving.done);
        let mut head = Head::new(peer, number, done, (kind, self.options.window)).of_cells(&cells);
        let packet = [head.as_mut_bytes(), &mut cells].map(VolatileSlice::from);
        if !link.send(host, &packet) {
            return Turn::Full;
        }
        connection.sending.number = number.wrapping_add(1);
        connection.receiving.told = done;
        let count = cells.len() / CELL;
        self.counters.add(DartStatistic::CellsSent, count as u64);
        self.sent(ports, index, kind, (count, question));
        Turn::Sent
    }

    /// Returns the message that leaves next, if it can.
    fn gather(&mut self, ports: &Ports<'_>, index: u32, send: &Send) -> Result<Message, Turn> {
        if send.is_long() {
            // This comes first, because gathering the message would be in vain.
            self.check_credits(index, cells::cells(send.length as usize))?;
        }
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else {
            return Err(Turn::Nothing);
        };
        let Some(Some(endpoint)) = self.endpoints.get(connection.endpoint as usize) else {
            return Err(Turn::Nothing);
        };
        let end = send.offset.checked_add(send.length.into());
        let inside = endpoint.contains(send.offset, send.length.into());
        let Some(end) = end.filter(|_| inside || send.length == 0) else {
            return Err(self.drop_next(ports, index));
        };
        let bytes = if send.length == 0 { 0..0 } else { send.offset..end };
        let pieces = match endpoint.find(ports.dma, &mut self.tlb, &mut connection.sending.wait, bytes, false)
        {
            Ok(pieces) => pieces,
            Err(Absent::NoMemory) => return Err(self.drop_next(ports, index)),
            Err(Absent::Missing(new)) => {
                self.miss(ports, index, new);
                return Err(Turn::Nothing);
            }
        };
        let mut data = vec![0; send.length as usize];
        let mut rest = &mut data[..];
        for piece in pieces {
            let (now, later) = rest.split_at_mut(piece.length);
            if ports.dma.read(piece.address, VolatileSlice::from(now)).is_err() {
                return Err(self.drop_next(ports, index));
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
            self.check_credits(index, cells::cells(0) + answer)?;
        }
        Ok(message)
    }

    /// Fails if a connection has no credits for `needed` cells.
    fn check_credits(&mut self, index: u32, needed: usize) -> Result<(), Turn> {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else {
            return Err(Turn::Nothing);
        };
        let is_poor = connection.sending.on_their_way as usize + needed > connection.limit as usize;
        if !is_poor || connection.is_system {
            return Ok(());
        }
        if !std::mem::replace(&mut connection.sending.starves, true) {
            self.count(DartStatistic::CreditWaits);
        }
        Err(Turn::Nothing)
    }

    /// Drops the next message, whose data is not there.
    fn drop_next(&mut self, ports: &Ports<'_>, index: u32) -> Turn {
        if let Some(Some(connection)) = self.connections.get_mut(index as usize) {
            connection.sending.sends.pop_front();
            connection.sending.wait.clear();
        }
        self.left(ports, index, 1, Some(DART_DROPPED_MEMORY));
        Turn::Dropped
    }

    /// Handles a packet of `cells` cells that has left. It may be a question.
    fn sent(
        &mut self,
        ports: &Ports<'_>,
        index: u32,
        kind: u32,
        (cells, question): (usize, Option<Question>),
    ) {
        let Some(Some(connection)) = self.connections.get_mut(index as usize) else { return };
        match kind {
            CREDITS => {}
            MESSAGE => {
                connection.spend(cells, question);
                self.count(DartStatistic::MessagesSent);
                self.left(ports, index, 1, None);
            }
            _ => {
                connection.sending.replies.pop_front();
                connection.sending.reply_cells -= cells;
                self.counters.add(DartStatistic::AnswersSent, (kind == ANSWER).into());
                // An answer may have waited for that.
                self.run(ports, index);
            }
        }
    }
}

impl Connection {
    /// Takes the credits for the message that has left, and for its answer.
    fn spend(&mut self, cells: usize, question: Option<Question>) {
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
}
