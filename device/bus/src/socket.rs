//! One client's connection: receives and sends whole messages, and never blocks.
//!
//! At the start of a message, the connection reads as many bytes as small messages have. It reads
//! the rest of a larger or fragmented message exactly. A read ends after the bytes that file
//! descriptors came with (unix(7)), so the descriptors belong to the last message that the read
//! began. Each outgoing message has its own `sendmsg`, because QEMU needs to receive a header
//! whole.

use crate::codec::{HEADER_SIZE, Header, MAX_FDS, MAX_MESSAGE_SIZE};
use hamlyn_door::{Kept, Meter, Porter, part};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use zerocopy::FromBytes;

/// Number of bytes read at once at the start of a message. A doorbell has 36.
const AHEAD: usize = 256;

/// Maximum number of descriptors that the kernel passes at once. The connection takes all of them,
/// so that the kernel does not close any in this thread.
const MOST_PASSED: usize = 253;

/// A message as received, with an undecoded body.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) fds: Vec<Kept<OwnedFd>>,
    /// The message has more file descriptors than allowed.
    pub(crate) too_many_fds: bool,
    /// File descriptors were lost, because this process had no space for them.
    pub(crate) fds_lost: bool,
}

/// Result of one call of [`Connection::receive`].
#[derive(Debug)]
pub(crate) enum Received {
    /// A whole message.
    Message(Message),
    /// The header of a message over the size limit. Its body is drained.
    Oversized(Header),
    /// A part of an oversized message was drained. There may be more to read at once.
    Drained,
    /// There is nothing more to read for now.
    Nothing,
    /// The client has disconnected, perhaps in the middle of a message.
    Closed,
    /// A header with a size smaller than itself, so the start of the next message is unknown.
    OutOfStep(Header),
    /// The client's wake-ups were slow too often.
    Slow,
}

#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    fd: Option<OwnedFd>,
}

/// A client's stream with its partly read and partly written messages.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Kept<OwnedFd>,
    /// The bytes read ahead, and the range of those that no message has consumed.
    ahead: [u8; AHEAD],
    ahead_rest: Range<usize>,
    /// The last read returned less than the maximum, so there was no more.
    dry: bool,
    header: [u8; HEADER_SIZE],
    header_read: usize,
    body: Vec<u8>,
    body_read: usize,
    /// Number of bytes of an oversized body that are still to be drained.
    to_drain: u64,
    oversized: bool,
    fds: Vec<Kept<OwnedFd>>,
    too_many_fds: bool,
    fds_lost: bool,
    outgoing: VecDeque<Outgoing>,
    /// Measures the cost of waking the client, which each send and each receive does.
    meter: Meter,
}

impl Connection {
    /// Creates the connection. `stream` is a connected, non-blocking UNIX stream socket.
    pub(crate) fn new(stream: Kept<OwnedFd>) -> Self {
        Connection {
            stream,
            ahead: [0; AHEAD],
            ahead_rest: 0..0,
            dry: false,
            header: [0; HEADER_SIZE],
            header_read: 0,
            body: Vec::new(),
            body_read: 0,
            to_drain: 0,
            oversized: false,
            fds: Vec::new(),
            too_many_fds: false,
            fds_lost: false,
            outgoing: VecDeque::new(),
            meter: Meter::new(),
        }
    }

    /// Whether bytes were read that no message has consumed.
    pub(crate) fn has_read_ahead(&self) -> bool {
        !self.ahead_rest.is_empty()
    }

    /// Whether it is known, without a system call, that there is nothing to read.
    pub(crate) fn is_dry(&self) -> bool {
        self.dry && self.ahead_rest.is_empty() && self.header_read == 0
    }

    /// Returns the porter that keeps the client's descriptors.
    pub(crate) fn porter(&self) -> &Porter {
        self.stream.porter()
    }

    /// Reads until a message is whole or nothing is left to read.
    pub(crate) fn receive(&mut self) -> Received {
        loop {
            if self.meter.is_over() {
                return Received::Slow;
            }
            let step = if self.header_read < HEADER_SIZE {
                self.read_header()
            } else if self.to_drain > 0 {
                self.drain()
            } else if std::mem::take(&mut self.oversized) {
                drop(self.take_message());
                None
            } else if self.body_read < self.body.len() {
                self.read_body()
            } else {
                return Received::Message(self.take_message());
            };
            if let Some(received) = step {
                return received;
            }
        }
    }

    fn read_header(&mut self) -> Option<Received> {
        if self.header_read == 0 && self.ahead_rest.is_empty() {
            if let Err(received) = self.read_ahead() {
                return Some(received);
            }
        }
        let mut header = self.header;
        match self.read(&mut header[self.header_read..]) {
            Ok(count) => self.header_read += count,
            Err(received) => return Some(received),
        }
        self.header = header;
        if self.header_read < HEADER_SIZE {
            return None;
        }
        let header = self.parsed_header();
        match (header.size as usize).checked_sub(HEADER_SIZE) {
            None => Some(Received::OutOfStep(header)),
            Some(body) => {
                self.oversized = header.size as usize > MAX_MESSAGE_SIZE;
                self.to_drain = if self.oversized { body as u64 } else { 0 };
                self.body = if self.oversized { Vec::new() } else { vec![0; body] };
                self.body_read = 0;
                self.oversized.then_some(Received::Oversized(header))
            }
        }
    }

    fn read_body(&mut self) -> Option<Received> {
        let mut body = std::mem::take(&mut self.body);
        let result = self.read(&mut body[self.body_read..]);
        self.body = body;
        match result {
            Ok(count) => self.body_read += count,
            Err(received) => return Some(received),
        }
        None
    }

    /// Drains a piece of an oversized message, then yields, so that an endless message does not
    /// starve other work.
    fn drain(&mut self) -> Option<Received> {
        let mut scratch = [0; 16 * 1024];
        let wanted = scratch.len().min(usize::try_from(self.to_drain).unwrap_or(usize::MAX));
        match self.read(&mut scratch[..wanted]) {
            Ok(count) => self.to_drain -= count as u64,
            Err(received) => return Some(received),
        }
        Some(Received::Drained)
    }

    /// Reads at least one byte from the start of a message.
    fn read_ahead(&mut self) -> Result<(), Received> {
        if std::mem::take(&mut self.dry) {
            return Err(Received::Nothing);
        }
        let mut ahead = self.ahead;
        let count = self.read_stream(&mut ahead)?;
        self.ahead = ahead;
        self.ahead_rest = 0..count;
        self.dry = count < AHEAD;
        Ok(())
    }

    /// Reads at least one byte into `buffer`, which must not be empty.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Received> {
        if self.ahead_rest.is_empty() {
            self.dry = false;
            return self.read_stream(buffer);
        }
        let count = buffer.len().min(self.ahead_rest.len());
        let from = self.ahead_rest.start;
        buffer[..count].copy_from_slice(&self.ahead[from..from + count]);
        self.ahead_rest.start += count;
        Ok(count)
    }

    /// Reads at least one byte from the stream, and keeps the file descriptors that come with it.
    fn read_stream(&mut self, buffer: &mut [u8]) -> Result<usize, Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_PASSED))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let bytes = buffer.len();
        let message = loop {
            let receive = || recvmsg(&self.stream, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags);
            match self.meter.measure(bytes, receive) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Err(Received::Nothing),
                Err(_) => return Err(Received::Closed),
                Ok(message) => break message,
            }
        };
        for item in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = item {
                self.fds.extend(fds.map(|fd| self.stream.porter().keep(fd)));
            }
        }
        // The buffer has space for all descriptors that the kernel passes at once. Truncation means
        // that this process has reached its descriptor limit.
        self.fds_lost |= message.flags.contains(ReturnFlags::CTRUNC);
        self.too_many_fds |= self.fds.len() > MAX_FDS;
        // A client that splits a message can attach more descriptors to each piece. Keep only as
        // many as one message may have.
        self.fds.truncate(MAX_FDS);
        if message.bytes == 0 { Err(Received::Closed) } else { Ok(message.bytes) }
    }

    fn take_message(&mut self) -> Message {
        let header = self.parsed_header();
        self.header_read = 0;
        self.body_read = 0;
        let body = std::mem::take(&mut self.body);
        // Another message begins in the bytes read: the descriptors belong to that one.
        if !self.ahead_rest.is_empty() {
            return Message { header, body, fds: Vec::new(), too_many_fds: false, fds_lost: false };
        }
        Message {
            header,
            body,
            fds: std::mem::take(&mut self.fds),
            too_many_fds: std::mem::take(&mut self.too_many_fds),
            fds_lost: std::mem::take(&mut self.fds_lost),
        }
    }

    fn parsed_header(&self) -> Header {
        // The array has the header's size, and every byte pattern is a valid header.
        Header::read_from_bytes(&self.header).unwrap_or(Header {
            id: 0,
            command: 0,
            size: 0,
            flags: 0,
            error: 0,
        })
    }

    /// Sends a message, now or when there is space. A disconnect shows at the next
    /// [`Connection::receive`].
    pub(crate) fn send(&mut self, bytes: Vec<u8>, fd: Option<OwnedFd>) {
        self.outgoing.push_back(Outgoing { bytes, sent: 0, fd });
        self.flush();
    }

    /// Sends waiting messages while there is space. Returns true if none is left.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some(message) = self.outgoing.front_mut() {
            if self.meter.is_over() {
                // The client is disconnected at the next check.
                self.outgoing.clear();
                break;
            }
            let bytes = message.bytes.len() - message.sent;
            match self.meter.measure(bytes, || message.send(self.stream.as_fd())) {
                Ok(()) if message.sent == message.bytes.len() => drop(self.outgoing.pop_front()),
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                // The client has disconnected, so the messages are dropped.
                Err(_) => self.outgoing.clear(),
            }
        }
        true
    }

    /// Hangs up.
    pub(crate) fn part(&self) {
        part(&self.stream, |_| {});
    }

    /// Returns how long the client is refused after its wake-ups were slow too often.
    pub(crate) fn penalty(&self) -> Option<Duration> {
        self.meter.is_over().then(|| self.meter.penalty())
    }

    /// Whether any bytes wait for space.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

impl Outgoing {
    fn send(&mut self, stream: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds: &[BorrowedFd<'_>] = match &self.fd {
            Some(fd) => &[fd.as_fd()],
            None => &[],
        };
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let rest = [IoSlice::new(&self.bytes[self.sent..])];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        self.sent += sendmsg(stream, &rest, &mut ancillary, flags)?;
        // The descriptor was sent with the first byte, so it is not sent again with the rest.
        self.fd = None;
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamlyn_door::Porters;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::{FdFlags, fcntl_getfd};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Connection, OwnedFd) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
        let porter = Porters::new(1).hire().unwrap();
        (Connection::new(porter.keep(ours)), theirs)
    }

    fn message(size: u32) -> Vec<u8> {
        [&[1, 0, 4, 0][..], &size.to_ne_bytes(), &[0; 8]].concat()
    }

    #[test]
    fn received_descriptors_are_close_on_exec() {
        let (mut connection, client) = pair();
        let event = eventfd(0, EventfdFlags::empty()).unwrap();
        assert!(!fcntl_getfd(&event).unwrap().contains(FdFlags::CLOEXEC));
        let mut sending = Outgoing { bytes: message(16), sent: 0, fd: Some(event) };
        sending.send(client.as_fd()).unwrap();
        let Received::Message(message) = connection.receive() else { panic!("no message") };
        assert_eq!(message.fds.len(), 1);
        assert!(fcntl_getfd(&message.fds[0]).unwrap().contains(FdFlags::CLOEXEC));
    }

    #[test]
    fn descriptors_stay_with_a_split_message() {
        let (mut connection, client) = pair();
        let send = |bytes: &[u8], with_fd: bool| {
            let fd = with_fd.then(|| eventfd(0, EventfdFlags::empty()).unwrap());
            Outgoing { bytes: bytes.to_vec(), sent: 0, fd }.send(client.as_fd()).unwrap();
        };
        let long = [message(16 + 300), vec![7; 300]].concat();
        // A descriptor with the first bytes of a split message, right before another message with a
        // descriptor, and plain messages around them.
        send(&message(16), false);
        send(&long[..20], true);
        send(&long[20..], false);
        send(&message(16), true);
        send(&message(16), false);
        let mut had = Vec::new();
        let mut idle = 0;
        while idle < 2 {
            match connection.receive() {
                Received::Message(message) => {
                    assert!(message.body.iter().all(|byte| *byte == 7));
                    had.push((message.body.len(), message.fds.len()));
                }
                Received::Nothing => idle += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(had, [(0, 0), (300, 1), (0, 1), (0, 0)]);
    }

    #[test]
    fn each_kind_of_end_is_distinguished() {
        let (mut connection, client) = pair();
        assert!(matches!(connection.receive(), Received::Nothing));
        rustix::io::write(&client, &message(15)).unwrap();
        assert!(matches!(connection.receive(), Received::OutOfStep(Header { size: 15, .. })));
        let (mut connection, client) = pair();
        rustix::io::write(&client, &message(17)).unwrap();
        assert!(matches!(connection.receive(), Received::Nothing));
        drop(client);
        assert!(matches!(connection.receive(), Received::Closed));
    }

    #[test]
    fn unsent_bytes_are_sent_later() {
        let (mut connection, client) = pair();
        let large: Vec<u8> = (0..1 << 20).map(|at| (at / 7) as u8).collect();
        connection.send(large.clone(), None);
        connection.send(vec![9; 3], None);
        assert!(connection.has_unsent());
        let mut received = Vec::new();
        let mut buffer = [0; 10_000];
        while let Ok(count) = rustix::io::read(&client, &mut buffer) {
            received.extend_from_slice(&buffer[..count]);
            connection.flush();
        }
        assert!(!connection.has_unsent());
        assert_eq!(received.len(), large.len() + 3);
        assert!(received[..large.len()] == large[..] && received[large.len()..] == [9; 3]);
    }

    #[test]
    fn sending_to_a_disconnected_client_succeeds() {
        let (mut connection, client) = pair();
        drop(client);
        connection.send(vec![0; 16], None);
        assert!(!connection.has_unsent());
        assert!(matches!(connection.receive(), Received::Closed));
    }
}
