//! One end of the exchange between two tools: a channel. Each message begins with a word, which
//! is part of its size.

use std::time::Duration;

use hamlyn::channel::{Card, Channel, Message, Options, Room};
use hamlyn::{Error, Polling};

use crate::{Outcome, complain};

/// Size of the word in bytes, and the minimum size of a message.
pub(crate) const WORD: usize = 4;
/// Maximum size of a message, unless the card's model has a lower one.
const MAX_SIZE: usize = (8 << 20) - 4096;
/// The same over express memory: with this size, a pair fits an ordinary user's default share of
/// the memory between two hosts.
pub(crate) const MAX_EXPRESS: usize = 64 << 10;
/// Returns the size of the largest message over a card.
pub(crate) fn max_size(card: &Card) -> usize {
    MAX_SIZE.min(usize::try_from(card.longest_message()).unwrap_or(MAX_SIZE))
}

/// Size of a ring that has room for several messages, if these are not larger.
const SEVERAL: usize = 1 << 20;
/// Number of messages that such a ring has room for.
const MESSAGES: usize = 16;

/// How long to wait for a message while the ring to the peer is full: room may come first.
pub(crate) const ROOM: Duration = Duration::from_micros(100);

/// How an end waits for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Polls.
    Poll,
    /// Polls for as long as has paid off lately, then sleeps until an interrupt.
    Adapt,
    /// Sleeps until an interrupt.
    Sleep,
}

impl Wait {
    fn polling(self) -> Polling {
        match self {
            Self::Poll => Polling::MOST,
            Self::Adapt => Polling::default(),
            Self::Sleep => Polling::NEVER,
        }
    }
}

pub(crate) struct End {
    channel: Channel,
    /// Bytes of the messages that measure express memory. Over it, storing them is the transfer. A
    /// card transfers what is in the channel's memory, so that they need not be stored each time.
    stored: Vec<u8>,
}

impl End {
    pub(crate) fn new(channel: Channel) -> Self {
        let stored = if channel.is_express() { vec![0x5a; channel.sender.longest()] } else { Vec::new() };
        Self { channel, stored }
    }

    /// Connects to a server of this name, with room for messages of `size` bytes.
    pub(crate) fn connect(
        card: &Card,
        (host, name): (u32, &str),
        size: usize,
        by_express: bool,
        timeout: Duration,
    ) -> Outcome<Self> {
        let mut options = options(card, size, by_express);
        options.by_card = !by_express;
        let channel = Channel::connect_timeout(card, host, name, options, timeout)?;
        if by_express && !channel.is_express() {
            complain("the two hosts share no express memory: by their cards instead");
        }
        Ok(Self::new(channel))
    }

    pub(crate) fn set_wait(&mut self, wait: Wait) {
        self.channel.sender.set_polling(wait.polling());
        self.channel.receiver.set_polling(wait.polling());
    }

    /// Returns the size of the largest message.
    pub(crate) fn room(&self) -> usize {
        self.channel.sender.longest()
    }

    /// Sends a message: a word, and bytes that follow it. `None` waits for room indefinitely.
    pub(crate) fn send(&mut self, word: u32, bytes: &[u8], timeout: Option<Duration>) -> hamlyn::Result<()> {
        let mut room = match timeout {
            Some(timeout) => self.channel.sender.reserve_timeout(WORD + bytes.len(), timeout),
            None => self.channel.sender.reserve(WORD + bytes.len()),
        }?;
        room.write(0, &word.to_le_bytes())?;
        room.write(WORD, bytes)?;
        room.commit()
    }

    /// Sends the word that is owed, if any. Returns whether there was room for it.
    pub(crate) fn try_say(&mut self, owed: &mut Option<u32>) -> hamlyn::Result<bool> {
        let Some(word) = *owed else { return Ok(true) };
        match self.channel.sender.try_send(&word.to_le_bytes()) {
            Err(error) if error.is_would_block() => return Ok(false),
            sent => sent?,
        }
        *owed = None;
        Ok(true)
    }

    /// Reserves room for a measured message of `size` bytes, whose contents do not matter.
    pub(crate) fn reserve(&mut self, size: usize, timeout: Option<Duration>) -> hamlyn::Result<Measured<'_>> {
        let Self { channel, stored } = self;
        let size = size.max(WORD);
        let room = match timeout {
            Some(Duration::ZERO) => channel.sender.try_reserve(size),
            Some(timeout) => channel.sender.reserve_timeout(size, timeout),
            None => channel.sender.reserve(size),
        }?;
        Ok(Measured { room, stored: stored.get(WORD..size).unwrap_or_default() })
    }

    /// Returns the next message, or `None` if the peer has closed the channel. Without a timeout it
    /// waits indefinitely.
    pub(crate) fn receive(&mut self, timeout: Option<Duration>) -> hamlyn::Result<Option<Received<'_>>> {
        let message = match timeout {
            Some(timeout) => self.channel.receiver.recv_timeout(timeout)?,
            None => self.channel.receiver.recv()?,
        };
        message.map(Received::new).transpose()
    }

    /// Closes the channel. What was sent arrives.
    pub(crate) fn close(self, timeout: Duration) -> hamlyn::Result<()> {
        self.channel.sender.close_timeout(timeout)
    }
}

/// Returns options for messages of up to `size` bytes, several of which are under way if a ring of
/// this card has room for them.
pub(crate) fn options(card: &Card, size: usize, by_express: bool) -> Options {
    options_within(card.longest_message(), size, by_express)
}

fn options_within(longest: u64, size: usize, by_express: bool) -> Options {
    let size = size.max(WORD);
    let least = Options::for_messages(size as u64);
    let several = ((size + 16) * MESSAGES / 2).min(SEVERAL / 2) as u64;
    let several = Options::for_messages(several.min(longest));
    let mut options = if by_express || several.capacity < least.capacity { least } else { several };
    options.capacity = options.capacity.max(Options::default().capacity);
    options
}

/// Room for a measured message.
pub(crate) struct Measured<'a> {
    room: Room<'a>,
    stored: &'a [u8],
}

impl Measured<'_> {
    pub(crate) fn send(mut self, word: u32) -> hamlyn::Result<()> {
        self.room.write(0, &word.to_le_bytes())?;
        self.room.write(WORD, self.stored)?;
        self.room.commit()
    }
}

/// A received message.
pub(crate) struct Received<'a> {
    pub(crate) word: u32,
    message: Message<'a>,
}

impl<'a> Received<'a> {
    fn new(message: Message<'a>) -> hamlyn::Result<Self> {
        let mut word = [0; WORD];
        message.read(0, &mut word).map_err(|_| Error::Malformed("a message without a word"))?;
        Ok(Self { word: u32::from_le_bytes(word), message })
    }

    /// Copies the bytes after the word.
    pub(crate) fn bytes(&self) -> hamlyn::Result<Vec<u8>> {
        let mut bytes = vec![0; self.message.len() - WORD];
        self.message.read(WORD, &mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_have_room_for_messages_of_any_size() {
        for size in [0, 1, 1000, 4096, 65536, 1 << 20, MAX_SIZE] {
            let capacity = options_within(u64::MAX, size, false).capacity as usize;
            assert!(capacity / 2 - 8 >= size.max(WORD) && capacity < 16 << 20, "{size}: {capacity}");
            assert!(size > 65536 || capacity >= (14 * size).min(900_000), "{size}: {capacity}");
        }
        assert!(options_within(u64::MAX, MAX_EXPRESS, true).capacity <= 35 * 4096);
        // A model with small rings.
        for size in [0, 1000, 65536, 100_000] {
            let capacity = options_within(100_000, size, false).capacity;
            assert!((size as u64..=200_704).contains(&capacity), "{size}: {capacity}");
        }
    }
}
