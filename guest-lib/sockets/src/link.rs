//! A channel as a stream's link.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use hamlyn::channel::{Channel, Receiver, Sender};
use hamlyn::{Error, PeerLoss, Polling};

use crate::foreign;
use crate::stream::Link;

/// The least room that is reported as room for more: a part of the longest message.
const ROOM: usize = 4;

/// Looks at a quiet channel before it is asked whether the peer is lost, which takes the clock.
const LOOKS: u32 = 256;
/// Bytes that are put aside: about as many as the kernel's TCP keeps for a program.
const ASIDE: usize = 4 << 20;

/// A channel.
#[derive(Debug)]
pub(crate) struct ChannelLink {
    sender: Option<Sender>,
    receiver: Receiver,
    is_express: bool,
    longest: usize,
    /// Bytes of the message in front that were read.
    read: usize,
    /// Bytes of the message in front; 0 if none was taken.
    front: usize,
    has_ended: bool,
    /// Whether the last look found nothing, and the number of looks since the last thorough one.
    is_empty: bool,
    looks: u32,
    writes: u32,
    /// Bytes that arrived while the program only sent, and how many of them were read.
    aside: Vec<u8>,
    aside_read: usize,
}

/// Descriptors of a channel, at most.
const DESCRIPTORS: u64 = 10;
/// Channels of this process.
static CHANNELS: AtomicU64 = AtomicU64::new(0);

/// Returns whether the descriptors of one more channel leave enough for the program.
pub(crate) fn has_descriptors() -> bool {
    (CHANNELS.load(Ordering::Relaxed) + 1) * DESCRIPTORS <= foreign::most_descriptors() / 2
}

impl Drop for ChannelLink {
    fn drop(&mut self) {
        CHANNELS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ChannelLink {
    pub(crate) fn new(channel: Channel) -> Self {
        CHANNELS.fetch_add(1, Ordering::Relaxed);
        let is_express = channel.is_express();
        let Channel { mut sender, mut receiver } = channel;
        // A waiter polls at all of its connections.
        sender.set_polling(Polling::NEVER);
        receiver.set_polling(Polling::NEVER);
        let longest = sender.longest();
        Self {
            sender: Some(sender),
            receiver,
            is_express,
            longest,
            read: 0,
            front: 0,
            has_ended: false,
            is_empty: false,
            looks: 0,
            writes: 0,
            aside: Vec::new(),
            aside_read: 0,
        }
    }

    pub(crate) fn is_express(&self) -> bool {
        self.is_express
    }

    /// Whether [`Link::read`] would return at once: with bytes, the end or an error.
    pub(crate) fn is_readable(&mut self) -> bool {
        !self.aside.is_empty() || self.find_front() != Err(libc::EAGAIN)
    }

    /// Whether [`Link::write`] would: with a message of some length, or an error.
    pub(crate) fn is_writable(&mut self) -> bool {
        let length = self.longest / ROOM;
        let Some(sender) = &mut self.sender else { return true };
        sender.peer_has_left() || !matches!(sender.try_reserve(length), Err(error) if error.is_would_block())
    }

    /// Whether everything that the peer sent was received, and it has closed.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended && self.aside.is_empty()
    }

    /// Bytes that can be read at once, at least.
    pub(crate) fn available(&mut self) -> usize {
        let front = if self.find_front().is_ok() { self.front - self.read } else { 0 };
        self.aside.len() - self.aside_read + front
    }

    /// Puts bytes aside, so that a peer that only sends, too, is not blocked for good. Returns
    /// whether there is room for more.
    pub(crate) fn put_aside(&mut self) -> bool {
        while self.aside.len() < ASIDE && self.find_front().is_ok() && self.front > 0 {
            let begin = self.aside.len();
            self.aside.resize(begin + self.front - self.read, 0);
            let read = self.receiver.read_taken(self.read, &mut self.aside[begin..]);
            if read.and_then(|()| self.receiver.give_back()).is_err() {
                // The next read tells.
                self.aside.truncate(begin);
                return false;
            }
            (self.front, self.read) = (0, 0);
        }
        self.aside.len() < ASIDE && !self.has_ended
    }

    /// Whether bytes were put aside, or the end was found meanwhile.
    pub(crate) fn has_aside(&self) -> bool {
        !self.aside.is_empty() || self.has_ended
    }

    fn read_aside(&mut self, to: &mut [IoSliceMut<'_>], peek: bool) -> usize {
        let mut rest = &self.aside[self.aside_read..];
        let got = std::io::Read::read_vectored(&mut rest, to).unwrap_or(0);
        if !peek {
            self.aside_read += got;
            if self.aside_read == self.aside.len() {
                (self.aside, self.aside_read) = (Vec::new(), 0);
            }
        }
        got
    }

    /// Prepares a file that becomes readable with the next message. `None`: look again at once.
    pub(crate) fn arm_input(&mut self) -> Option<RawFd> {
        match self.receiver.arm() {
            Ok(false) => self.receiver.file().ok().map(|file| file.as_raw_fd()),
            _ => {
                // What arming has found, a look without arming may not.
                self.is_empty = false;
                None
            }
        }
    }

    /// Prepares a file that becomes readable with room. `None`: look again at once.
    pub(crate) fn arm_output(&mut self) -> Option<RawFd> {
        let length = self.longest / ROOM;
        let sender = self.sender.as_mut()?;
        match sender.arm(length) {
            Ok(false) => sender.file().ok().map(|file| file.as_raw_fd()),
            _ => None,
        }
    }

    /// Ends the sending direction: the peer gets everything, and then the end.
    pub(crate) fn close_sender(&mut self, limit: std::time::Duration) {
        if let Some(sender) = self.sender.take() {
            // The peer may have gone first.
            let _ = sender.close_timeout(limit);
        }
    }

    /// Takes the next message, if none is in front. `Ok` at the end, too.
    fn find_front(&mut self) -> Result<(), i32> {
        if self.front == 0 && !self.has_ended {
            if self.is_empty && !self.receiver.has_news() && self.looks < LOOKS {
                self.looks += 1;
                return Err(libc::EAGAIN);
            }
            (self.is_empty, self.looks) = (false, 0);
            match self.receiver.take(None) {
                // The peer's library sends none, and any number of them would keep this call busy.
                Ok(Some([])) => return Err(libc::EPROTO),
                Ok(Some(message)) => (self.front, self.read) = (message.len(), 0),
                Ok(None) => self.has_ended = true,
                Err(error) => {
                    self.is_empty = error.is_would_block();
                    return Err(number(&error));
                }
            }
        }
        Ok(())
    }

    fn release_front(&mut self) -> Result<(), i32> {
        (self.front, self.read) = (0, 0);
        self.receiver.give_back().map_err(|error| number(&error))
    }
}

impl Link for ChannelLink {
    fn say(&mut self, message: &[u8]) -> Result<(), i32> {
        let sender = self.sender.as_mut().ok_or(libc::EPIPE)?;
        sender.try_send(message).map_err(|error| number(&error))
    }

    fn hear(&mut self) -> Result<Option<Vec<u8>>, i32> {
        match self.receiver.try_recv() {
            Ok(Some(message)) => message.to_vec().map(Some).map_err(|error| number(&error)),
            Ok(None) => Ok(None),
            Err(error) => Err(number(&error)),
        }
    }

    fn write(&mut self, from: &[IoSlice<'_>]) -> Result<usize, i32> {
        let sender = self.sender.as_mut().ok_or(libc::EPIPE)?;
        self.writes = self.writes.wrapping_add(1);
        if sender.peer_has_left() || (self.writes % LOOKS == 0 && self.receiver.peer_ended()) {
            return Err(libc::EPIPE);
        }
        let total = from.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
        // Half of the longest message at most, so that both ends work at the same time.
        let mut length = total.min(self.longest / 2);
        let mut room = loop {
            match sender.try_reserve(length) {
                Ok(room) => break room,
                Err(error) if error.is_would_block() && length > 1 => length = (length / 4).max(1),
                // What TCP says of a peer that has gone.
                Err(error) => {
                    return Err(Some(number(&error))
                        .filter(|it| *it != libc::ECONNRESET)
                        .unwrap_or(libc::EPIPE));
                }
            }
        };
        let mut at = 0;
        for part in from {
            let part = &part[..part.len().min(length - at)];
            room.write(at, part).map_err(|error| number(&error))?;
            at += part.len();
        }
        room.commit().map_err(|error| number(&error))?;
        Ok(length)
    }

    fn read(&mut self, to: &mut [IoSliceMut<'_>], peek: bool) -> Result<usize, i32> {
        if !self.aside.is_empty() {
            return Ok(self.read_aside(to, peek));
        }
        self.find_front()?;
        let (mut at, mut got) = (self.read, 0);
        for part in to {
            let mut filled = 0;
            while filled < part.len() && at < self.front {
                let length = (self.front - at).min(part.len() - filled);
                let read = self.receiver.read_taken(at, &mut part[filled..filled + length]);
                read.map_err(|error| number(&error))?;
                (at, filled, got) = (at + length, filled + length, got + length);
                if !peek {
                    self.read = at;
                }
                // More than the message in front had. What fails now, the next call reports.
                if !peek && at == self.front && self.release_front().and_then(|()| self.find_front()).is_ok()
                {
                    at = 0;
                }
            }
        }
        Ok(got)
    }
}

/// In a child: the parent's channels are not its own.
pub(crate) fn begin_anew() {
    CHANNELS.store(0, Ordering::Relaxed);
}

/// The `errno` for an error of the library.
pub(crate) fn number(error: &Error) -> i32 {
    match error {
        error if error.is_would_block() => libc::EAGAIN,
        Error::PeerLost(PeerLoss::Host | PeerLoss::Gone) => libc::EHOSTUNREACH,
        Error::PeerLost(PeerLoss::Link) => libc::ENETDOWN,
        Error::PeerLost(PeerLoss::CardReset) => libc::ENETRESET,
        Error::PeerLost(_) => libc::ECONNRESET,
        Error::Nonsense(_) | Error::Malformed(_) => libc::EPROTO,
        _ => libc::EIO,
    }
}
