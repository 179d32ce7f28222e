//! An end of a channel over express memory (docs/express.md), between hosts with Hamlyn cards. A
//! message is a record of the word and the bytes.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use hamlyn::attach::Attachment;
use hamlyn::express::{Channel, ChannelListener, ChannelOptions, PAGE};
use hamlyn::{CONNECT_TIMEOUT, Card, Connection, Error, Manager, PeerLoss, Polling};

use crate::end::{Address, End, Wait, Wish};
use crate::serve;
use crate::word;
use crate::{Outcome, complain};

/// Size of each end's ring in bytes: two messages of 64 KiB and their overhead. A pair of ends
/// takes one page more. With this size, one pair fits an ordinary user's default share of the
/// memory between two hosts.
const RING: usize = 35 * PAGE;
/// Overhead of a record in bytes: the ring's header, and the word.
const HEAD: usize = 8 + WORD;
const WORD: usize = 4;
/// Maximum number of records that are buffered while this end waits for space. Fewer if they are
/// long, up to this many bytes.
const EARLY: usize = 4096;
const EARLY_BYTES: usize = 16 << 20;
/// How long an end waits for space before it receives pending records: the peer may be waiting for
/// space, too.
const ROOM: Duration = Duration::from_millis(1);

/// Error for --express with another card.
pub(crate) const ONLY_HAMLYN: &str = "channels over express memory are of hosts with Hamlyn cards";

/// A received record: its word, and its bytes.
type Record = (u32, Vec<u8>);

pub(crate) struct ExpressEnd {
    channel: Channel,
    host: u32,
    /// Bytes of the next messages.
    filled: Vec<u8>,
    /// Bytes of the last message received.
    came: Vec<u8>,
    /// Records received while this end waited for space.
    early: VecDeque<Record>,
    /// The peer has closed the channel, or is lost.
    ended: bool,
    loss: Option<PeerLoss>,
}

/// Host of an end, and the length of the longest message there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChannelAddress {
    host: u32,
    room: u32,
}

impl Address for ChannelAddress {
    const SIZE: usize = 8;

    fn to_bytes(&self) -> Vec<u8> {
        [self.host.to_le_bytes(), self.room.to_le_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (host, room) = bytes.split_first_chunk()?;
        let [host, room] = [*host, room.try_into().ok()?].map(u32::from_le_bytes);
        Some(Self { host, room })
    }

    fn host(&self) -> u32 {
        self.host
    }

    fn room(&self) -> usize {
        self.room as usize
    }
}

fn options() -> ChannelOptions {
    let mut options = ChannelOptions::default();
    options.capacity = RING as u64;
    options
}

impl ExpressEnd {
    fn over(channel: Channel, card: &Card) -> Outcome<Self> {
        if !channel.is_express() {
            complain("there is no express memory between the two hosts: by messages instead");
        }
        let host = card.info()?.host.unwrap_or_default();
        let (filled, came, early) = Default::default();
        Ok(Self { channel, host, filled, came, early, ended: false, loss: None })
    }

    /// Sends a record, and receives pending records while there is no space for it.
    fn send_record(&mut self, word: u32, bytes: usize) -> hamlyn::Result<()> {
        loop {
            match self.channel.sender.reserve(WORD + bytes, Some(ROOM)) {
                Ok(mut record) => {
                    record.write(0, &word.to_le_bytes())?;
                    record.write(WORD, &self.filled[..bytes])?;
                    return record.commit();
                }
                Err(error) if error.is_timed_out() => {}
                Err(error) => return Err(error),
            }
            if let Some(record) = self.next(Some(Duration::ZERO))? {
                // Only a peer that sends and never receives can exceed the capacity of the rings.
                if self.early.len() >= EARLY.min(EARLY_BYTES / (HEAD + record.1.len())) {
                    return Err(Error::Malformed("a peer that takes nothing, and says more and more"));
                }
                self.early.push_back(record);
            }
        }
    }

    fn next(&mut self, timeout: Option<Duration>) -> hamlyn::Result<Option<Record>> {
        let message = match self.channel.receiver.recv_block(timeout) {
            Err(error) if error.is_timed_out() => return Ok(None),
            Err(Error::PeerLost(loss)) => {
                (self.ended, self.loss) = (true, Some(loss));
                return Ok(None);
            }
            message => message?,
        };
        let Some(message) = message else {
            self.ended = true;
            return Ok(None);
        };
        let mut word = [0; WORD];
        message.read(0, &mut word).map_err(|_| Error::Malformed("a message without a word"))?;
        let mut bytes = vec![0; message.len() - WORD];
        message.read(WORD, &mut bytes)?;
        Ok(Some((u32::from_le_bytes(word), bytes)))
    }
}

impl End for ExpressEnd {
    type Attachment = dyn Attachment;
    type Address = ChannelAddress;

    const MODEL: &'static str = "express memory's";
    const HAS_TICKETS: bool = false;
    const MAX_SIZE: usize = RING - HEAD;

    /// An end needs its peer: use [`End::connect`] or [`End::listen`].
    fn create(_card: &Card, _host: Option<u32>, _size: usize) -> Outcome<Self> {
        Err(Error::NotConnected.into())
    }

    fn connect(
        card: &Card,
        host: u32,
        name: &str,
        _size: usize,
    ) -> Outcome<(Self, ChannelAddress, Option<Connection>)> {
        let manager = Manager::create(card)?;
        let channel = Channel::connect(&manager, host, name, options(), Some(CONNECT_TIMEOUT))?;
        let room = channel.sender.longest().saturating_sub(WORD) as u32;
        Ok((Self::over(channel, card)?, ChannelAddress { host, room }, None))
    }

    fn listen(card: &Card, name: &str, json: bool) -> Outcome<ExitCode> {
        let manager = Manager::create(card)?;
        let listener = ChannelListener::bind(&manager, name, options())?;
        serve::announce(name, Self::host(card)?, json)?;
        loop {
            // A client that cannot be served is told why, and does not affect the next one.
            let channel = match listener.accept(None) {
                Ok(channel) => channel,
                Err(error) => {
                    complain(format_args!("a client was not accepted: {error}"));
                    continue;
                }
            };
            let mut end = Self::over(channel, card)?;
            thread::spawn(move || {
                if let Err(error) = serve::serve(&mut end, None) {
                    complain(format_args!("a client: {error}"));
                }
            });
        }
    }

    fn host(card: &Card) -> hamlyn::Result<Option<u32>> {
        Ok(card.info()?.host)
    }

    /// Both ends have rings of the same size.
    fn address(&self) -> hamlyn::Result<ChannelAddress> {
        Ok(ChannelAddress { host: self.host, room: Self::MAX_SIZE as u32 })
    }

    fn reach(&mut self, _address: &ChannelAddress, _wish: Wish) -> Outcome {
        self.filled = vec![0; Self::MAX_SIZE];
        Ok(())
    }

    fn fill(&mut self, data: &[u8]) -> hamlyn::Result<()> {
        self.filled[..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn data(&self, size: usize) -> hamlyn::Result<Vec<u8>> {
        let data = self.came.get(..size).ok_or(Error::Malformed("a message of fewer bytes than it has"))?;
        Ok(data.to_vec())
    }

    fn send(&mut self, word: u32, size: usize) -> hamlyn::Result<()> {
        self.send_record(word, size)
    }

    fn say(&mut self, word: u32) -> hamlyn::Result<()> {
        self.send_record(word, 0)
    }

    fn say_hello(&mut self, hello: &[u8]) -> hamlyn::Result<()> {
        let kept = self.filled[..hello.len()].to_vec();
        self.fill(hello)?;
        self.send_record(word::HELLO, hello.len())?;
        self.fill(&kept)
    }

    fn read_hello(&self) -> hamlyn::Result<Vec<u8>> {
        Ok(self.came.clone())
    }

    fn receive(&mut self, wait: Wait, timeout: Option<Duration>) -> hamlyn::Result<Option<u32>> {
        let polling = if wait == Wait::Poll { Polling::MOST } else { Polling::default() };
        self.channel.receiver.set_polling(polling);
        self.channel.sender.set_polling(polling);
        let record = match self.early.pop_front() {
            Some(record) => Some(record),
            None => self.next(timeout)?,
        };
        Ok(record.map(|(word, bytes)| {
            self.came = bytes;
            word
        }))
    }

    fn complain(&self) -> hamlyn::Result<()> {
        self.loss.map_or(Ok(()), |loss| Err(Error::PeerLost(loss)))
    }

    fn finish(&mut self, timeout: Duration) -> hamlyn::Result<()> {
        self.channel.sender.flush(Some(timeout))
    }

    fn has_ended(&self) -> bool {
        self.ended
    }
}
