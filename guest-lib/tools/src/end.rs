//! One end of the exchange between two tools: a slot to receive in, a terminus and a send buffer to send from.

use std::time::Duration;

use hamlyn::{
    Arrival, Card, Error, Handle, Message, NotificationQueue, Polling, SendBuffer, Slot, Terminus, Ticket,
};

use crate::Outcome;
use crate::word;

/// Messages under way at once, none of which the receiver has confirmed. Each has a metadata entry of its own, so that
/// their packets may overtake each other.
pub(crate) const DEPTH: u64 = 64;
/// Entries of the notification queue: the depth, and words of control.
const NOTIFICATIONS: u32 = 256;
/// Bytes before the data, for what is said before and after.
const CONTROL: usize = 64;
/// The longest message, and perftest's.
pub(crate) const MAX_SIZE: usize = 8 << 20;

/// Of what two tools say to each other.
const VERSION: u8 = 2;

/// How an end waits for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Looks without end.
    Poll,
    /// Looks for a while, then sleeps until an interrupt.
    Sleep,
}

/// What a client asks of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) wish: Wish,
    pub(crate) wait: Wait,
    /// Messages that the server may have under way, at most [`DEPTH`].
    pub(crate) depth: u8,
    /// Bytes of each message.
    pub(crate) size: usize,
    /// Messages that the server is to send of its own ([`Wish::Both`]); 0: until the client's last has come.
    pub(crate) messages: u64,
    /// Where the client receives.
    pub(crate) ticket: Ticket,
}

/// What a server is to do with each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Send its bytes back.
    Echo,
    /// Answer with as many bytes that lie ready.
    Answer,
    /// Count it, and confirm now and then.
    Count,
    /// The same, and meanwhile send as many of its own.
    Both,
}

impl Hello {
    const SIZE: usize = 16 + Ticket::SIZE;

    /// Version, wish, wait, depth; size in 4 bytes, messages in 8, little-endian; ticket.
    fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let wish = match self.wish {
            Wish::Echo => 0,
            Wish::Answer => 1,
            Wish::Count => 2,
            Wish::Both => 3,
        };
        bytes[..4].copy_from_slice(&[VERSION, wish, u8::from(self.wait == Wait::Sleep), self.depth]);
        bytes[4..8].copy_from_slice(&(self.size as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.messages.to_le_bytes());
        bytes[16..].copy_from_slice(&self.ticket.to_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::SIZE], max_size: usize) -> Option<Self> {
        let wish = match bytes[..2] {
            [VERSION, 0] => Wish::Echo,
            [VERSION, 1] => Wish::Answer,
            [VERSION, 2] => Wish::Count,
            [VERSION, 3] => Wish::Both,
            _ => return None,
        };
        let wait = if bytes[2] == 0 { Wait::Poll } else { Wait::Sleep };
        let depth = bytes[3];
        let size = u32::from_le_bytes(bytes[4..8].try_into().ok()?) as usize;
        let messages = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        let ticket = Ticket::from_bytes(&bytes[16..]).ok()?;
        let fits = size <= max_size.min(room(&ticket)) && (1..=DEPTH).contains(&depth.into());
        fits.then_some(Self { wish, wait, depth, size, messages, ticket })
    }

    /// Whether the server's message `number`, the first being 0, is its last.
    pub(crate) fn is_last(&self, number: u64, client_has_ended: bool) -> bool {
        if self.messages == 0 { client_has_ended } else { number + 1 >= self.messages }
    }
}

/// The longest message that the owner of a ticket takes.
pub(crate) fn room(ticket: &Ticket) -> usize {
    (ticket.length as usize).saturating_sub(CONTROL)
}

pub(crate) struct End {
    terminus: Terminus,
    slot: Slot,
    queue: NotificationQueue,
    buffer: SendBuffer,
}

impl End {
    /// An end for messages of up to `size` bytes.
    pub(crate) fn create(card: &Card, size: usize) -> Outcome<Self> {
        let area = card.create_area(CONTROL + size)?;
        let queue = card.create_queue(NOTIFICATIONS)?;
        let slot = card.slot(&area).metadata_entries(DEPTH as u32).queue(&queue).create()?;
        let terminus = card.create_terminus()?;
        let buffer = terminus.create_send_buffer(size.max(1))?;
        Ok(Self { terminus, slot, queue, buffer })
    }

    /// What a peer needs.
    pub(crate) fn ticket(&self) -> hamlyn::Result<Ticket> {
        self.slot.fast_ticket()
    }

    /// Fills the bytes that the next messages carry.
    pub(crate) fn fill(&mut self, data: &[u8]) -> hamlyn::Result<()> {
        self.buffer.write(0, data)
    }

    /// The bytes that the last message brought.
    pub(crate) fn data(&self, size: usize) -> hamlyn::Result<Vec<u8>> {
        let mut data = vec![0; size];
        self.slot.read(CONTROL, &mut data)?;
        Ok(data)
    }

    /// Sends a numbered message of `size` bytes: in fast mode if it fits into a packet.
    pub(crate) fn send(&self, peer: &Ticket, word: u32, size: usize) -> hamlyn::Result<Handle> {
        let piece = self.buffer.piece(0, size)?;
        if size <= self.terminus.packet_size() as usize {
            return self.terminus.send(&Message::to(peer).offset(CONTROL as u32).word(word), piece);
        }
        let entry = Ticket { metadata_index: word % DEPTH as u32, ..*peer };
        let metadata = word.to_le_bytes();
        self.terminus.send(&Message::to(&entry).offset(CONTROL as u32).metadata(&metadata), piece)
    }

    /// Sends a word alone.
    pub(crate) fn say(&self, peer: &Ticket, word: u32) -> hamlyn::Result<Handle> {
        self.terminus.send(&Message::to(peer).word(word), &[])
    }

    /// Sends a client's wish.
    pub(crate) fn say_hello(&self, peer: &Ticket, hello: Hello) -> hamlyn::Result<Handle> {
        self.terminus.send(&Message::to(peer).word(word::HELLO), &hello.to_bytes())
    }

    /// The wish behind a word of [`word::HELLO`], if it makes sense.
    pub(crate) fn read_hello(&self) -> hamlyn::Result<Option<Hello>> {
        let mut bytes = [0; Hello::SIZE];
        self.slot.read(0, &mut bytes)?;
        Ok(Hello::from_bytes(&bytes, self.buffer.len()))
    }

    /// The word of the next message; none if the time is over. Without a time it waits for ever.
    pub(crate) fn receive(&self, wait: Wait, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>> {
        let arrived = match wait {
            Wait::Poll => self.queue.recv_poll(Polling::default(), timeout),
            Wait::Sleep => self.queue.recv_block(timeout),
        };
        let arrived = match arrived {
            Err(error) if error.is_timed_out() => return Ok(None),
            arrived => arrived?,
        };
        if let Arrival::Fast(word) = arrived.arrival {
            return Ok(Some(word));
        }
        let entry = self.slot.entry_of(&arrived).ok_or(Error::Malformed("a notification of another slot"))?;
        let user = self.slot.metadata(entry)?.user();
        Ok(Some(u32::from_le_bytes([user[0], user[1], user[2], user[3]])))
    }
}

#[cfg(test)]
mod tests {
    use hamlyn::TicketFlags;
    use proptest::prelude::*;

    use super::*;

    fn hello(size: usize) -> Hello {
        let ticket = Ticket {
            destination: 1,
            slot: 2,
            metadata_index: Ticket::FAST,
            key: 3,
            base: 0,
            length: 1064,
            flags: TicketFlags::default(),
        };
        Hello { wish: Wish::Both, wait: Wait::Sleep, depth: DEPTH as u8, size, messages: 1 << 40, ticket }
    }

    #[test]
    fn a_wish_comes_back_if_both_have_room_for_it() {
        let wish = hello(1000);
        assert_eq!(Hello::from_bytes(&wish.to_bytes(), 1000), Some(wish));
        assert_eq!(Hello::from_bytes(&wish.to_bytes(), 999), None);
        assert_eq!(Hello::from_bytes(&hello(1001).to_bytes(), 2000), None);
    }

    #[test]
    fn a_server_sends_as_many_as_it_is_told_or_until_the_client_ends() {
        let told = Hello { messages: 3, ..hello(1) };
        assert_eq!([1, 2, 3].map(|number| told.is_last(number, true)), [false, true, true]);
        let open = Hello { messages: 0, ..hello(1) };
        assert_eq!([false, true].map(|ended| open.is_last(9, ended)), [false, true]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_wish_or_none(at in 0..Hello::SIZE, byte in any::<u8>(), limit in 0..2000_usize) {
            let mut bytes = hello(1000).to_bytes();
            bytes[at] = byte;
            if let Some(read) = Hello::from_bytes(&bytes, limit) {
                prop_assert!(read.size <= limit && (1..=DEPTH).contains(&read.depth.into()));
            }
        }
    }
}
