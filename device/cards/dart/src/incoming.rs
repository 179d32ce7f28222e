//! Arriving packets: for a connection of their host, in order, and within what the host may send.

use hamlyn_abi::dart::connection::{DART_BROKEN_LOST, DART_BROKEN_PEER};

use crate::cells::Message;
use crate::connections::{Arrived, Connection, Question, answer_length};
use crate::packet::{ANSWER, CREDITS, Head, MESSAGE, TRAPPED};

/// A trap that the peer reports: its number, and the opcode of the message.
pub(crate) type PeersTrap = (u32, u32);

impl Connection {
    /// Returns whether a packet is for this connection, and the connection takes packets.
    pub(crate) fn takes(&self, source: u16, head: &Head) -> bool {
        self.host == source && self.key == head.key.get() && self.broken == 0
    }

    /// Accepts a packet of the peer. Returns the trap that it reports, if it does. Fails with the
    /// reason why the connection must break.
    pub(crate) fn accept(&mut self, head: &Head, cells: &[u8]) -> Result<Option<PeersTrap>, u32> {
        if head.number.get() != self.receiving.number {
            return Err(DART_BROKEN_LOST);
        }
        self.receiving.number = self.receiving.number.wrapping_add(1);
        let sound = self.agree(head.window()).and_then(|()| self.returned(head.done.get()));
        sound.and_then(|()| self.accept_content(head.kind(), cells)).ok_or(DART_BROKEN_PEER)
    }

    /// Accepts what a packet carries beside credits. Returns `None` if the peer may not send it.
    fn accept_content(&mut self, kind: u32, cells: &[u8]) -> Option<Option<PeersTrap>> {
        match kind {
            CREDITS if cells.is_empty() => Some(None),
            kind @ (MESSAGE | ANSWER) => {
                let message = Message::decode(self.number, cells).ok()?;
                self.arrived(message, kind == ANSWER).map(|()| None)
            }
            kind => {
                let message =
                    Message::decode(self.number, cells).ok().filter(|message| message.body.is_empty())?;
                let trap = kind.checked_sub(TRAPPED).filter(|trap| (1..16).contains(trap))?;
                self.forgive(&message)?;
                Some(Some((trap, message.control.opcode)))
            }
        }
    }

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
    fn arrived(&mut self, message: Message, is_answer: bool) -> Option<()> {
        let arrived = Arrived { message, is_answer };
        let cells = arrived.cells();
        if is_answer {
            let question = self.receiving.questions.pop_front()?;
            question.is_answered_by(&arrived.message).then_some(())?;
        } else if self.receiving.cells + cells > self.own_window as usize {
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

/// Returns the message of an operating system, or `None` if a packet carries anything else. Such a
/// message has no answer.
pub(crate) fn system_message(head: &Head, cells: &[u8]) -> Option<Message> {
    let message = Message::decode(head.connection.get(), cells).ok()?;
    (head.kind() == MESSAGE && answer_length(&message).is_none()).then_some(message)
}
