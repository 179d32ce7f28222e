//! One end of the exchange between two tools: what a model does for it, and what client and server
//! agree on.

use std::process::ExitCode;
use std::time::Duration;

use hamlyn::Connection;
use hamlyn::attach::{Card, CardAttachment};

use crate::{Outcome, serve};

/// Messages under way at once, none of which the receiver has confirmed.
pub(crate) const DEPTH: u64 = 64;

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

/// Where an end receives, as its peer needs to know it.
pub(crate) trait Address: Copy + Send {
    /// Bytes of its binary form.
    const SIZE: usize;

    fn to_bytes(&self) -> Vec<u8>;

    fn from_bytes(bytes: &[u8]) -> Option<Self>;

    /// The host id.
    fn host(&self) -> u32;

    /// The longest message that its owner takes.
    fn room(&self) -> usize;
}

/// What a model's cards do for the tools: messages of a word and some bytes, from one end to its
/// peer. The bytes of a message lie where those of the one before lay.
pub(crate) trait End: Sized + Send {
    /// How the model's cards are reached.
    type Attachment: CardAttachment + ?Sized + 'static;
    /// Where an end receives.
    type Address: Address;

    /// The model's name.
    const MODEL: &'static str;
    /// Whether who serves can be found by a ticket.
    const HAS_TICKETS: bool;
    /// The longest message.
    const MAX_SIZE: usize;

    /// An end for messages of up to `size` bytes, with a peer at this host. Who prints tickets does
    /// not know where who has them is.
    fn create(card: &Card<Self::Attachment>, host: Option<u32>, size: usize) -> Outcome<Self>;

    /// The same with who listens there under a name: the end, the peer's address, and what tells of
    /// its end.
    fn connect(
        card: &Card<Self::Attachment>,
        host: u32,
        name: &str,
        size: usize,
    ) -> Outcome<(Self, Self::Address, Option<Connection>)> {
        let end = Self::create(card, Some(host), size)?;
        let connection = card.connect(host, name, &(size as u64).to_le_bytes())?;
        Ok((end, read(connection.private())?, Some(connection)))
    }

    /// Listens under a name, and serves all who connect, each in a thread of its own, for ever.
    fn listen(card: &Card<Self::Attachment>, name: &str, json: bool) -> Outcome<ExitCode> {
        serve::listen::<Self>(card, name, json)
    }

    /// The card's host id.
    fn host(card: &Card<Self::Attachment>) -> hamlyn::Result<Option<u32>>;

    /// Refuses messages of a size that cannot be sent for this.
    fn check(_wish: Wish, size: usize) -> Outcome {
        let limit = Self::MAX_SIZE;
        if size > limit {
            return Err(format!("message size {size} is out of range (limit {limit})").into());
        }
        Ok(())
    }

    /// What a peer needs.
    fn address(&self) -> hamlyn::Result<Self::Address>;

    /// From now on what is sent goes there, and is for this.
    fn reach(&mut self, address: &Self::Address, wish: Wish) -> Outcome;

    /// Fills the bytes that the next messages carry.
    fn fill(&mut self, data: &[u8]) -> hamlyn::Result<()>;

    /// The bytes that the last message brought.
    fn data(&self, size: usize) -> hamlyn::Result<Vec<u8>>;

    /// Sends a numbered message of `size` bytes.
    fn send(&mut self, word: u32, size: usize) -> hamlyn::Result<()>;

    /// Sends a word alone.
    fn say(&mut self, word: u32) -> hamlyn::Result<()>;

    /// Sends a client's wish, behind which comes [`crate::word::HELLO`].
    fn say_hello(&mut self, hello: &[u8]) -> hamlyn::Result<()>;

    /// The bytes of the wish behind a word of [`crate::word::HELLO`].
    fn read_hello(&self) -> hamlyn::Result<Vec<u8>>;

    /// The word of the next message; none if the time is over. Without a time it waits for ever.
    fn receive(&mut self, wait: Wait, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>>;

    /// Fails if what was sent last was not sent, with the reason.
    fn complain(&self) -> hamlyn::Result<()>;

    /// Waits until this end may go without what it has sent being lost.
    fn finish(&mut self, timeout: Duration) -> hamlyn::Result<()>;

    /// Whether this end knows by itself that the other is gone. A connection tells of most.
    fn has_ended(&self) -> bool {
        false
    }
}

/// An address as its model writes it.
pub(crate) fn read<A: Address>(bytes: &[u8]) -> Outcome<A> {
    Ok(A::from_bytes(bytes).ok_or("the peer is not of the card's model, or of another version")?)
}

/// What a client asks of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello<A> {
    pub(crate) wish: Wish,
    pub(crate) wait: Wait,
    /// Messages that the server may have under way, at most [`DEPTH`].
    pub(crate) depth: u8,
    /// Bytes of each message.
    pub(crate) size: usize,
    /// Messages that the server is to send of its own ([`Wish::Both`]); 0: until the client's last
    /// has come.
    pub(crate) messages: u64,
    /// Where the client receives.
    pub(crate) address: A,
}

impl<A: Address> Hello<A> {
    /// Bytes of its binary form.
    pub(crate) const SIZE: usize = 16 + A::SIZE;

    /// Version, wish, wait, depth; size in 4 bytes, messages in 8, little-endian; address.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let wish = match self.wish {
            Wish::Echo => 0,
            Wish::Answer => 1,
            Wish::Count => 2,
            Wish::Both => 3,
        };
        let mut bytes = vec![VERSION, wish, u8::from(self.wait == Wait::Sleep), self.depth];
        bytes.extend((self.size as u32).to_le_bytes());
        bytes.extend(self.messages.to_le_bytes());
        bytes.extend(self.address.to_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8], max_size: usize) -> Option<Self> {
        let (head, address) = (bytes.get(..16)?, bytes.get(16..Self::SIZE)?);
        let wish = match head[..2] {
            [VERSION, 0] => Wish::Echo,
            [VERSION, 1] => Wish::Answer,
            [VERSION, 2] => Wish::Count,
            [VERSION, 3] => Wish::Both,
            _ => return None,
        };
        let wait = if head[2] == 0 { Wait::Poll } else { Wait::Sleep };
        let depth = head[3];
        let size = u32::from_le_bytes(head[4..8].try_into().ok()?) as usize;
        let messages = u64::from_le_bytes(head[8..16].try_into().ok()?);
        let address = A::from_bytes(address)?;
        let fits = size <= max_size.min(address.room()) && (1..=DEPTH).contains(&depth.into());
        fits.then_some(Self { wish, wait, depth, size, messages, address })
    }

    /// Whether the server's message `number`, the first being 0, is its last.
    pub(crate) fn is_last(&self, number: u64, client_has_ended: bool) -> bool {
        if self.messages == 0 { client_has_ended } else { number + 1 >= self.messages }
    }
}

#[cfg(test)]
mod tests {
    use hamlyn::shrimp::Handle;
    use hamlyn::{Ticket, TicketFlags};
    use proptest::prelude::*;

    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            destination: 1,
            slot: 2,
            metadata_index: Ticket::FAST,
            key: 3,
            base: 0,
            length: 1064,
            flags: TicketFlags::default(),
        }
    }

    fn hello<A>(size: usize, address: A) -> Hello<A> {
        Hello { wish: Wish::Both, wait: Wait::Sleep, depth: DEPTH as u8, size, messages: 1 << 40, address }
    }

    #[test]
    fn a_wish_comes_back_if_both_have_room_for_it() {
        let wish = hello(1000, ticket());
        assert_eq!(Hello::from_bytes(&wish.to_bytes(), 1000), Some(wish));
        assert_eq!(Hello::<Ticket>::from_bytes(&wish.to_bytes(), 999), None);
        assert_eq!(Hello::<Ticket>::from_bytes(&hello(1001, ticket()).to_bytes(), 2000), None);
        let wish = hello(1000, Handle::new(1, 2, 3, 4096 + 1000));
        assert_eq!(Hello::from_bytes(&wish.to_bytes(), 1000), Some(wish));
        assert_eq!(Hello::<Ticket>::from_bytes(&wish.to_bytes(), 1000), None, "another model's");
    }

    #[test]
    fn a_server_sends_as_many_as_it_is_told_or_until_the_client_ends() {
        let told = Hello { messages: 3, ..hello(1, ticket()) };
        assert_eq!([1, 2, 3].map(|number| told.is_last(number, true)), [false, true, true]);
        let open = Hello { messages: 0, ..hello(1, ticket()) };
        assert_eq!([false, true].map(|ended| open.is_last(9, ended)), [false, true]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_wish_or_none(at in 0..Hello::<Ticket>::SIZE, byte in any::<u8>(), limit in 0..2000_usize) {
            let mut bytes = hello(1000, ticket()).to_bytes();
            bytes[at] = byte;
            if let Some(read) = Hello::<Ticket>::from_bytes(&bytes, limit) {
                prop_assert!(read.size <= limit && (1..=DEPTH).contains(&read.depth.into()));
            }
        }
    }
}
