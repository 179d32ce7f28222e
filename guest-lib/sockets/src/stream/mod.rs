//! A connection that begins on TCP and goes on over a channel. It knows neither sockets nor cards.
//!
//! The connecting end takes a name that only the owner of its TCP connection gets, so the accepting
//! end knows to whom it opens the channel. Anyone may ask for a channel under that name, so the
//! accepting end proves itself: it ends its bytes on TCP with a marker that came by the channel.
//!
//! | step | end | by | what |
//! |---|---|---|---|
//! | 1 | connecting | channel | [`Hello`]: the marker |
//! | 2 | accepting | channel | [`Switch`]: number of its bytes on TCP |
//! | 3 | accepting | TCP | the marker, after those bytes; from now on it sends by channel |
//! | 4 | connecting | channel | [`Switch`]; from now on it sends by channel |
//!
//! Each end reads TCP up to the position in the other's `Switch`, and then the channel. Without a
//! channel nothing changes, so a failure before step 2 costs nothing. If the channel is lost after
//! step 3, so may be what came by it: the connecting end finds the marker, and ends.

#[cfg(test)]
mod tests;
mod wire;

use std::io::{IoSlice, IoSliceMut};

use self::wire::{Hello, MARKER, Switch};

/// Most bytes of TCP that are looked through for the marker at once.
const WINDOW: usize = 4096;

/// The connection's TCP side. No call waits; errors are values of `errno`.
pub(crate) trait Tcp {
    /// Copies bytes that have arrived, without removing them.
    fn peek(&mut self, to: &mut [u8]) -> Result<usize, i32>;
    /// Receives up to `limit` bytes.
    fn receive(&mut self, to: &mut [IoSliceMut<'_>], limit: usize) -> Result<usize, i32>;
    fn send(&mut self, bytes: &[u8]) -> Result<usize, i32>;
}

/// The connection's channel. No call waits: `EAGAIN` without a message or room.
pub(crate) trait Link {
    /// Sends a whole message.
    fn say(&mut self, message: &[u8]) -> Result<(), i32>;
    /// Receives a whole message. `None` if the peer has closed.
    fn hear(&mut self) -> Result<Option<Vec<u8>>, i32>;
    /// Sends as many bytes as there is room for, at least one.
    fn write(&mut self, from: &[IoSlice<'_>]) -> Result<usize, i32>;
    /// Receives bytes, or with `peek` copies them. 0 if the peer has closed.
    fn read(&mut self, to: &mut [IoSliceMut<'_>], peek: bool) -> Result<usize, i32>;
}

/// Where bytes go from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Tcp,
    /// The rest of the marker goes to TCP first.
    Marking(usize),
    Channel,
}

/// How the next bytes are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By TCP, at most this many.
    Tcp(usize),
    Channel,
}

#[derive(Debug)]
pub(crate) struct Stream<L> {
    /// The accepting end opens the channel, the connecting end listens.
    is_accepted: bool,
    link: Option<L>,
    /// The marker that ends the accepting end's bytes on TCP, once both ends have it.
    marker: Option<[u8; MARKER]>,
    output: Output,
    receives_by_channel: bool,
    /// Number of bytes on TCP in each direction.
    sent: u64,
    received: u64,
    /// Number of the peer's bytes on TCP.
    end: Option<u64>,
    /// The peer's bytes all go by TCP: it has ended the channel without a `Switch`.
    stays: bool,
    /// The program has ended this direction on TCP.
    has_shut: bool,
}

impl<L: Link> Stream<L> {
    pub(crate) fn new(is_accepted: bool) -> Self {
        Self {
            is_accepted,
            link: None,
            marker: None,
            output: Output::Tcp,
            receives_by_channel: false,
            sent: 0,
            received: 0,
            end: None,
            stays: false,
            has_shut: false,
        }
    }

    /// Takes the channel. `marker` is random.
    pub(crate) fn attach(&mut self, mut link: L, marker: [u8; MARKER]) -> Result<(), i32> {
        if !self.is_accepted {
            link.say(&Hello { marker }.to_bytes())?;
            self.marker = Some(marker);
        }
        self.link = Some(link);
        Ok(())
    }

    pub(crate) fn has_link(&self) -> bool {
        self.link.is_some()
    }

    pub(crate) fn link(&mut self) -> Option<&mut L> {
        self.link.as_mut()
    }

    pub(crate) fn take_link(&mut self) -> Option<L> {
        self.link.take()
    }

    /// Whether a byte went by the channel, or will.
    pub(crate) fn has_switched(&self) -> bool {
        self.output != Output::Tcp || self.receives_by_channel
    }

    pub(crate) fn sends_by_channel(&self) -> bool {
        self.output == Output::Channel
    }

    pub(crate) fn receives_by_channel(&self) -> bool {
        self.receives_by_channel
    }

    /// Whether a part of the marker still waits for room.
    pub(crate) fn is_marking(&self) -> bool {
        matches!(self.output, Output::Marking(_))
    }

    /// Whether messages of the other end are awaited that are not data.
    pub(crate) fn is_agreeing(&self) -> bool {
        self.link.is_some() && self.end.is_none() && !self.stays
    }

    /// Whether the marker is on its way to this end.
    pub(crate) fn awaits_marker(&self) -> bool {
        !self.is_accepted && self.link.is_some() && self.end.is_some() && !self.receives_by_channel
    }

    /// Whether the other end may send its marker, or has sent it, for all that this end knows.
    pub(crate) fn is_guarded(&self) -> bool {
        !self.is_accepted && self.marker.is_some() && !self.receives_by_channel
    }

    /// The program ends its direction. Returns whether that has to be done on TCP.
    pub(crate) fn shut(&mut self) -> bool {
        self.has_shut = true;
        self.output == Output::Tcp
    }

    /// Does what the two ends' agreement allows by now. An error is the connection's end.
    pub(crate) fn advance(&mut self, tcp: &mut impl Tcp) -> Result<(), i32> {
        if self.link.is_none() || (self.receives_by_channel && self.output == Output::Channel) {
            return Ok(());
        }
        let Err(error) = self.agree(tcp) else { return Ok(()) };
        if self.has_switched() {
            return Err(error);
        }
        // Nothing depends on the channel.
        self.link = None;
        Ok(())
    }

    fn agree(&mut self, tcp: &mut impl Tcp) -> Result<(), i32> {
        self.hear()?;
        if self.is_accepted {
            if self.marker.is_some() {
                self.switch_output()?;
            }
            self.mark(tcp);
            if self.end.is_some_and(|end| end < self.received) {
                return Err(libc::EPROTO);
            }
            self.receives_by_channel |= self.end == Some(self.received);
        } else {
            self.find_marker(tcp)?;
            if self.receives_by_channel {
                self.switch_output()?;
            }
        }
        Ok(())
    }

    /// Takes the messages that are not data.
    fn hear(&mut self) -> Result<(), i32> {
        if !self.is_agreeing() {
            return Ok(());
        }
        if self.is_accepted && self.marker.is_none() {
            let Some(message) = self.next_message()? else { return Ok(()) };
            self.marker = Some(Hello::from_bytes(&message)?.marker);
        }
        match self.next_message() {
            Ok(None) => {}
            Ok(Some(message)) => self.end = Some(Switch::from_bytes(&message)?.position),
            // What this end has sent by channel is the channel's matter.
            Err(_) if self.has_switched() => self.stays = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn next_message(&mut self) -> Result<Option<Vec<u8>>, i32> {
        match self.link.as_mut().map(Link::hear) {
            None | Some(Err(libc::EAGAIN)) => Ok(None),
            Some(Ok(None)) => Err(libc::ECONNRESET),
            Some(heard) => heard,
        }
    }

    /// Sends by channel from now on; the accepting end once the marker is on TCP.
    fn switch_output(&mut self) -> Result<(), i32> {
        let Some(link) = self.link.as_mut().filter(|_| self.output == Output::Tcp && !self.has_shut) else {
            return Ok(());
        };
        match link.say(&Switch { position: self.sent }.to_bytes()) {
            Err(libc::EAGAIN) => return Ok(()),
            other => other?,
        }
        self.output = if self.is_accepted { Output::Marking(0) } else { Output::Channel };
        Ok(())
    }

    fn mark(&mut self, tcp: &mut impl Tcp) {
        while let (Output::Marking(done), Some(marker)) = (self.output, self.marker) {
            match tcp.send(&marker[done..]) {
                Err(libc::EAGAIN) => break,
                // The peer has gone, which the channel tells, too. What it sent before stays.
                Err(_) => self.output = Output::Channel,
                Ok(sent) => {
                    let done = done + sent;
                    self.output = if done < MARKER { Output::Marking(done) } else { Output::Channel };
                }
            }
        }
    }

    /// Receives the marker, once all bytes before it were received.
    fn find_marker(&mut self, tcp: &mut impl Tcp) -> Result<(), i32> {
        let (Some(end), Some(marker), false) = (self.end, self.marker, self.receives_by_channel) else {
            return Ok(());
        };
        if end > self.received {
            return Ok(());
        }
        let mut bytes = [0; MARKER];
        let found = match tcp.peek(&mut bytes) {
            Err(libc::EAGAIN) => return Ok(()),
            // The peer ended the connection instead.
            Ok(0) => return Err(libc::ECONNRESET),
            found => found?,
        };
        // What is not the marker is data: the channel's peer is not the connection's.
        if end < self.received || bytes[..found] != marker[..found] {
            return Err(libc::EPROTO);
        }
        if found == MARKER {
            tcp.receive(&mut [IoSliceMut::new(&mut bytes)], MARKER)?;
            self.receives_by_channel = true;
        }
        Ok(())
    }

    /// Returns how up to `wanted` bytes are received next. [`Way::Tcp`] with 0: not yet.
    pub(crate) fn way_in(&mut self, tcp: &mut impl Tcp, wanted: usize) -> Result<Way, i32> {
        self.advance(tcp)?;
        if self.receives_by_channel() {
            return Ok(Way::Channel);
        }
        let has_link = self.link.is_some();
        let allowed = match (self.end, self.marker.filter(|_| self.is_guarded())) {
            (Some(end), _) if has_link => end.saturating_sub(self.received),
            (_, Some(marker)) => match before_marker(tcp, &marker, wanted, has_link)? {
                // The channel was lost, and what came by it.
                0 if !has_link && wanted > 0 => return Err(libc::ECONNRESET),
                allowed => allowed as u64,
            },
            _ => return Ok(Way::Tcp(wanted)),
        };
        Ok(Way::Tcp(wanted.min(usize::try_from(allowed).unwrap_or(usize::MAX))))
    }

    /// Bytes were received by TCP.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Returns whether bytes are sent by channel. `EAGAIN` while the marker waits for room.
    pub(crate) fn way_out(&mut self, tcp: &mut impl Tcp) -> Result<bool, i32> {
        self.advance(tcp)?;
        match self.output {
            Output::Tcp => Ok(false),
            Output::Marking(_) => Err(libc::EAGAIN),
            Output::Channel => Ok(true),
        }
    }

    /// Bytes were sent by TCP.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }
}

/// Returns how many of the next `wanted` bytes do not belong to the marker, while it is unknown
/// where those end. TCP carries nothing after the marker, so only the last bytes received can be a
/// part of it; a beginning of the marker counts if it may turn out to be `partial`. An end of
/// the connection counts as data.
fn before_marker(
    tcp: &mut impl Tcp,
    marker: &[u8; MARKER],
    wanted: usize,
    partial: bool,
) -> Result<usize, i32> {
    let mut bytes = [0; WINDOW + MARKER];
    let there = wanted.min(WINDOW) + MARKER;
    let found = match tcp.peek(&mut bytes[..there])? {
        0 => return Ok(wanted),
        found => &bytes[..found],
    };
    let least = if partial { 1 } else { MARKER };
    let held = (least..=MARKER.min(found.len())).rev().find(|held| found.ends_with(&marker[..*held]));
    Ok(found.len() - held.unwrap_or(0))
}
