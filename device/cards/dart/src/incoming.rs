//! Arriving packets: for a connection of their host, in order, and within what the host may send.

use hamlyn_abi::dart::connection::{DART_BROKEN_LOST, DART_BROKEN_PEER};
use hamlyn_abi::dart::fifo::DART_FIFO_ARRIVED;
use hamlyn_abi::dart::statistics::DartStatistic;
use hamlyn_card::ports::{Packet, Ports};

use crate::DartCard;
use crate::cells::Message;
use crate::connections::{Arrived, Connection, Question, answer_length};
use crate::packet::{ANSWER, CREDITS, Head, MESSAGE, TRAPPED};

impl DartCard {
    pub(super) fn take(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        let taken = if self.chassis.is_enabled() { Head::take(packet.bytes) } else { None };
        let Some((head, cells)) = taken else { return self.count(DartStatistic::Discarded) };
        let index = head.connection.get();
        let known = self.connections.get_mut(index as usize).and_then(Option::as_mut);
        let is_meant = |known: &&mut Connection| {
            known.host == packet.source && known.key == head.key.get() && known.broken == 0
        };
        let Some(connection) = known.filter(is_meant) else { return self.count(DartStatistic::Discarded) };
        if connection.is_system {
            return self.take_system(ports, &head, &cells);
        }
        self.counters.add(DartStatistic::PacketsArrived, 1);
        if head.number.get() != connection.receiving.number {
            return self.break_off(ports, index, DART_BROKEN_LOST);
        }
        connection.receiving.number = connection.receiving.number.wrapping_add(1);
        let window = self.options.window;
        let sound =
            connection.agree(window, head.window()).and_then(|()| connection.returned(head.done.get()));
        if sound.is_none() {
            return self.break_off(ports, index, DART_BROKEN_PEER);
        }
        let taken = match head.kind() {
            CREDITS if cells.is_empty() => Some(None),
            kind @ (MESSAGE | ANSWER) => {
                let message = Message::decode(index, &cells).ok();
                message.and_then(|message| connection.arrived(message, kind == ANSWER, window)).map(|()| None)
            }
            kind => {
                let message = Message::decode(index, &cells).ok().filter(|message| message.body.is_empty());
                let trap = kind.checked_sub(TRAPPED).filter(|trap| (1..16).contains(trap));
                trap.zip(message).and_then(|(trap, message)| {
                    connection.forgive(&message).map(|()| Some((trap, message.control.opcode)))
                })
            }
        };
        match taken {
            None => return self.break_off(ports, index, DART_BROKEN_PEER),
            Some(None) => {}
            Some(Some((trap, opcode))) => {
                let told = connection.trapped(ports.dma, trap, opcode);
                self.note(ports, index, told);
            }
        }
        self.run(ports, index);
        self.stir(index);
    }
}

impl DartCard {
    /// Handles a message of an operating system: executes it at once, or drops it.
    fn take_system(&mut self, ports: &Ports<'_>, head: &Head, cells: &[u8]) {
        let index = head.connection.get();
        let message = Message::decode(index, cells).ok().filter(|message| answer_length(message).is_none());
        let Some(message) = message.filter(|_| head.kind() == MESSAGE) else {
            return self.count(DartStatistic::Discarded);
        };
        self.counters.add(DartStatistic::PacketsArrived, 1);
        if self.execute_now(ports, index, message) {
            self.tell(ports, DART_FIFO_ARRIVED | index);
        } else {
            self.count(DartStatistic::Discarded);
        }
    }
}

impl Connection {
    /// Handles the peer's count of cells that are done. Returns `None` if it exceeds the cells in
    /// flight.
    fn returned(&mut self, done: u32) -> Option<()> {
        let sending = &mut self.sending;
        let new = done.wrapping_sub(sending.returned);
        if new > sending.spent.wrapping_sub(sending.returned) {
            return None;
        }
        sending.returned = done;
        sending.on_their_way -= new;
        Some(())
    }

    /// Accepts a message. Returns `None` if it is more than the peer may send, or is not the answer
    /// to the first question in flight.
    fn arrived(&mut self, message: Message, is_answer: bool, window: u32) -> Option<()> {
        let arrived = Arrived { message, is_answer };
        let cells = arrived.cells();
        if is_answer {
            let question = self.receiving.questions.pop_front()?;
            question.is_answered_by(&arrived.message).then_some(())?;
        } else if self.receiving.cells + cells > window as usize {
            return None;
        } else {
            self.receiving.cells += cells;
        }
        self.receiving.waiting.push_back(arrived);
        Some(())
    }

    /// Handles a trap of a message. If the message is a question, its answer will not come. Returns
    /// `None` if it is not the first question in flight.
    fn forgive(&mut self, message: &Message) -> Option<()> {
        let Some(question) = Question::of(message) else { return Some(()) };
        self.receiving.questions.pop_front().filter(|first| *first == question)?;
        self.sending.on_their_way -= question.answer_cells() as u32;
        Some(())
    }
}
