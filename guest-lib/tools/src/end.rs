//! One end of the exchange between two tools: a model's part of it, and the protocol between client
//! and server.

use std::process::ExitCode;
use std::time::Duration;

use hamlyn::Connection;
use hamlyn::attach::{Card, CardAttachment};

use crate::{Outcome, serve};

/// Maximum number of messages in flight, not confirmed by the receiver.
pub(crate) const DEPTH: u64 = 64;

/// Version of the protocol between two tools.
const VERSION: u8 = 2;

/// How an end waits for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Polls without end.
    Poll,
    /// Polls for a while, then sleeps until an interrupt.
    Sleep,
}

/// What a server does with each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Returns its bytes.
    Echo,
    /// Answers with the same number of prepared bytes.
    Answer,
    /// Counts it, and confirms from time to time.
    Count,
    /// As `Count`, and sends as many messages itself meanwhile.
    Both,
}

/// The address at which an end receives, as its peer needs it.
pub(crate) trait Address: Copy + Send {
    /// Size of its binary form, in bytes.
    const SIZE: usize;

    fn to_bytes(&self) -> Vec<u8>;

    fn from_bytes(bytes: &[u8]) -> Option<Self>;

    /// Returns the host id.
    fn host(&self) -> u32;

    /// Returns the length of the longest message that its owner accepts.
    fn room(&self) -> usize;
}

/// Interface of a card model to the tools: an end sends messages to its peer, each a word and some
/// bytes. The bytes of a message overwrite those of the previous one.
pub(crate) trait End: Sized + Send {
    /// Attachment of the model's cards.
    type Attachment: CardAttachment + ?Sized + 'static;
    /// Address at which an end receives.
    type Address: Address;

    /// Name of the model.
    const MODEL: &'static str;
    /// Whether clients can find a server by a ticket.
    const HAS_TICKETS: bool;
    /// Length of the longest message.
    const MAX_SIZE: usize;

    /// Creates an end for messages of up to `size` bytes, with a peer on `host`. A server that
    /// prints tickets does not know the hosts of its clients.
    fn create(card: &Card<Self::Attachment>, host: Option<u32>, size: usize) -> Outcome<Self>;

    /// Creates an end with the listener `name` on `host` as its peer. Returns the end, the peer's
    /// address, and the connection that reports the peer's end.
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

    /// Listens under a name, and serves each client in its own thread, indefinitely.
    fn listen(card: &Card<Self::Attachment>, name: &str, json: bool) -> Outcome<ExitCode> {
        serve::listen::<Self>(card, name, json)
    }

    /// Returns the card's host id.
    fn host(card: &Card<Self::Attachment>) -> hamlyn::Result<Option<u32>>;

    /// Fails if messages of this size cannot be sent for this purpose.
    fn check(_wish: Wish, size: usize) -> Outcome {
        let limit = Self::MAX_SIZE;
        if size > limit {
            return Err(format!("message size {size} is out of range (limit {limit})").into());
        }
        Ok(())
    }

    /// Returns the address for the peer.
    fn address(&self) -> hamlyn::Result<Self::Address>;

    /// Sets the destination and the purpose of later messages.
    fn reach(&mut self, address: &Self::Address, wish: Wish) -> Outcome;

    /// Sets the bytes of the next messages.
    fn fill(&mut self, data: &[u8]) -> hamlyn::Result<()>;

    /// Returns the bytes of the last message received.
    fn data(&self, size: usize) -> hamlyn::Result<Vec<u8>>;

    /// Sends a numbered message of `size` bytes.
    fn send(&mut self, word: u32, size: usize) -> hamlyn::Result<()>;

    /// Sends a word without bytes.
    fn say(&mut self, word: u32) -> hamlyn::Result<()>;

    /// Sends a client's request, followed by [`crate::word::HELLO`].
    fn say_hello(&mut self, hello: &[u8]) -> hamlyn::Result<()>;

    /// Returns the bytes of the request that came with a word of [`crate::word::HELLO`].
    fn read_hello(&self) -> hamlyn::Result<Vec<u8>>;

    /// Returns the word of the next message, or `None` on timeout. Without a timeout it waits
    /// indefinitely.
    fn receive(&mut self, wait: Wait, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>>;

    /// Fails with the reason if the last message was not sent.
    fn complain(&self) -> hamlyn::Result<()>;

    /// Blocks until this end can be dropped without losing sent messages.
    fn finish(&mut self, timeout: Duration) -> hamlyn::Result<()>;

    /// Returns whether this end has noticed by itself that the peer is gone. Mostly the connection
    /// reports that.
    fn has_ended(&self) -> bool {
        false
    }
}

/// Parses an address of the model.
pub(crate) fn read<A: Address>(bytes: &[u8]) -> Outcome<A> {
    Ok(A::from_bytes(bytes).ok_or("the peer is not of the card's model, or of another version")?)
}

/// A client's request to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello<A> {
    pub(crate) wish: Wish,
    pub(crate) wait: Wait,
    /// Messages that the server may have in flight, at most [`DEPTH`].
    pub(crate) depth: u8,
    /// Size of each message, in bytes.
    pub(crate) size: usize,
    /// Number of messages that the server sends ([`Wish::Both`]). 0: until the client's last
    /// message has arrived.
    pub(crate) messages: u64,
    /// Address at which the client receives.
    pub(crate) address: A,
}

impl<A: Address> Hello<A> {
    /// Size of its binary form, in bytes.
    pub(crate) const SIZE: usize = 16 + A::SIZE;

    /// Encodes version, wish, wait, depth; size in 4 bytes, messages in 8, little-endian; address.
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

    /// Returns whether the server's message `number`, counted from 0, is its last.
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
    fn hello_parses_if_size_fits_both_ends() {
        let wish = hello(1000, ticket());
        assert_eq!(Hello::from_bytes(&wish.to_bytes(), 1000), Some(wish));
        assert_eq!(Hello::<Ticket>::from_bytes(&wish.to_bytes(), 999), None);
        assert_eq!(Hello::<Ticket>::from_bytes(&hello(1001, ticket()).to_bytes(), 2000), None);
        let wish = hello(1000, Handle::new(1, 2, 3, 4096 + 1000));
        assert_eq!(Hello::from_bytes(&wish.to_bytes(), 1000), Some(wish));
        assert_eq!(Hello::<Ticket>::from_bytes(&wish.to_bytes(), 1000), None, "another model's");
    }

    #[test]
    fn server_sends_requested_count_or_until_client_ends() {
        let told = Hello { messages: 3, ..hello(1, ticket()) };
        assert_eq!([1, 2, 3].map(|number| told.is_last(number, true)), [false, true, true]);
        let open = Hello { messages: 0, ..hello(1, ticket()) };
        assert_eq!([false, true].map(|ended| open.is_last(9, ended)), [false, true]);
    }

    proptest! {
        #[test]
        fn corrupted_hello_is_parsed_or_refused(at in 0..Hello::<Ticket>::SIZE, byte in any::<u8>(), limit in 0..2000_usize) {
            let mut bytes = hello(1000, ticket()).to_bytes();
            bytes[at] = byte;
            if let Some(read) = Hello::<Ticket>::from_bytes(&bytes, limit) {
                prop_assert!(read.size <= limit && (1..=DEPTH).contains(&read.depth.into()));
            }
        }
    }
}
