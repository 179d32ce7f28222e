//! A server with a small function, and a client that sends raw bytes. The client's messages are
//! built by hand, so that the codec under test does not check itself.
//!
//! Everything runs in one thread: the client writes, the server handles what is there, the client
//! reads.

use hamlyn_bus::{
    Answer, Area, Backing, Bar, BarRead, Bus, Description, Function, Msix, ReadToken, ResetCause, Server,
    Widths,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const VERSION: u16 = 1;
pub(crate) const DMA_MAP: u16 = 2;
pub(crate) const DMA_UNMAP: u16 = 3;
pub(crate) const GET_INFO: u16 = 4;
pub(crate) const GET_REGION_INFO: u16 = 5;
pub(crate) const GET_REGION_IO_FDS: u16 = 6;
pub(crate) const GET_IRQ_INFO: u16 = 7;
pub(crate) const SET_IRQS: u16 = 8;
pub(crate) const REGION_READ: u16 = 9;
pub(crate) const REGION_WRITE: u16 = 10;
pub(crate) const DEVICE_RESET: u16 = 13;
pub(crate) const WRITE_MULTI: u16 = 15;

pub(crate) const NO_REPLY: u32 = 0x10;
pub(crate) const REPLY: u32 = 1;
pub(crate) const ERROR: u32 = 0x20;

pub(crate) const ENOSPC: u32 = libc::ENOSPC as u32;
pub(crate) const EEXIST: u32 = libc::EEXIST as u32;
pub(crate) const EINVAL: u32 = libc::EINVAL as u32;
pub(crate) const E2BIG: u32 = libc::E2BIG as u32;
pub(crate) const EPROTO: u32 = libc::EPROTO as u32;
pub(crate) const EMSGSIZE: u32 = libc::EMSGSIZE as u32;
pub(crate) const EOPNOTSUPP: u32 = libc::EOPNOTSUPP as u32;
pub(crate) const EPROTONOSUPPORT: u32 = libc::EPROTONOSUPPORT as u32;

/// The trapped BAR of the test function: 64 KiB of registers, 4 and 8 bytes wide.
pub(crate) const REGISTERS: u32 = 0;
/// The partly mapped BAR of 1 MiB. Its first page and 64 KiB at 128 KiB are mapped.
pub(crate) const WINDOW: u32 = 2;
pub(crate) const WINDOW_AREAS: [(u64, u64); 2] = [(0, 4096), (128 << 10, 64 << 10)];
/// The BAR of MSI-X.
pub(crate) const MSIX_BAR: u32 = 4;
pub(crate) const CONFIG: u32 = 7;
pub(crate) const VECTORS: u16 = 4;

/// Reads from this offset on are deferred.
pub(crate) const LATE: u64 = 0x8000;
/// Writing a vector raises that interrupt.
pub(crate) const RING: u64 = 0x4000;
/// A write takes a while, so that many of them take longer than a turn.
pub(crate) const SLOW: u64 = 0x4010;
/// Writing a guest address (8 bytes) increments the u32 there.
pub(crate) const INCREMENT: u64 = 0x4008;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Read(usize, u64, usize),
    Write(usize, u64, Vec<u8>),
    Reset(ResetCause),
    BusMaster(bool),
    Memory,
}

/// Records all calls. A register reads as its own offset.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) events: Vec<Event>,
    pub(crate) late: Vec<ReadToken>,
    pub(crate) errors: Vec<String>,
    /// How many more accesses it accepts; `None` for any number.
    pub(crate) takes: Option<usize>,
    /// Number of calls of `access_expired`.
    pub(crate) expired: usize,
    /// Number of calls of `access_expired` that return true. The last of them accepts one access.
    pub(crate) gives_up: usize,
}

impl Scratch {
    fn take(&mut self) {
        self.takes = self.takes.map(|takes| takes.checked_sub(1).expect("it takes no access"));
    }
}

impl Function for Scratch {
    fn is_ready(&mut self, _: &Bus) -> bool {
        self.takes != Some(0)
    }

    fn access_expired(&mut self, _: &Bus) -> bool {
        self.expired += 1;
        let gives_up = self.gives_up > 0;
        self.gives_up = self.gives_up.saturating_sub(1);
        if gives_up && self.gives_up == 0 {
            self.takes = Some(1);
        }
        gives_up
    }

    fn bar_read(&mut self, _: &Bus, read: BarRead, data: &mut [u8]) -> Answer {
        self.take();
        self.events.push(Event::Read(read.bar, read.offset, data.len()));
        if read.offset >= LATE {
            self.late.push(read.token);
            return Answer::Later;
        }
        let width = data.len();
        data.copy_from_slice(&read.offset.to_le_bytes()[..width]);
        Answer::Now
    }

    fn bar_write(&mut self, bus: &Bus, bar: usize, offset: u64, data: &[u8]) {
        self.take();
        self.events.push(Event::Write(bar, offset, data.to_vec()));
        let mut bytes = [0; 8];
        bytes[..data.len()].copy_from_slice(data);
        let value = u64::from_le_bytes(bytes);
        let result = match offset {
            RING => bus.interrupts.interrupt(value as u16).map_err(|error| error.to_string()),
            INCREMENT => bus
                .dma
                .read_u32(value)
                .and_then(|number| bus.dma.write_u32(value, number + 1))
                .map_err(|error| error.to_string()),
            SLOW => {
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            }
            _ => Ok(()),
        };
        self.errors.extend(result.err());
    }

    fn reset(&mut self, _: &Bus, cause: ResetCause) {
        self.events.push(Event::Reset(cause));
    }

    fn bus_master_changed(&mut self, bus: &Bus, enabled: bool) {
        assert_eq!(bus.bus_master(), enabled);
        self.events.push(Event::BusMaster(enabled));
    }

    fn memory_changed(&mut self, _: &Bus) {
        self.events.push(Event::Memory);
    }
}

pub(crate) fn description() -> Description {
    let area = |(offset, size)| Area { offset, size };
    Description {
        vendor: 0x1af4,
        device: 0x5a5a,
        revision: 1,
        class: 0x02_8000,
        subsystem_vendor: 0x1af4,
        subsystem: 1,
        bars: vec![
            Bar {
                index: REGISTERS as usize,
                size: 64 << 10,
                is_64bit: false,
                prefetchable: false,
                areas: vec![],
                widths: Widths::DWORD | Widths::QWORD,
            },
            Bar {
                index: WINDOW as usize,
                size: 1 << 20,
                is_64bit: true,
                prefetchable: true,
                areas: WINDOW_AREAS.into_iter().map(area).collect(),
                widths: Widths::DWORD,
            },
        ],
        msix: Some(Msix { bar: MSIX_BAR as usize, vectors: VECTORS }),
    }
}

/// A received reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) id: u16,
    pub(crate) command: u16,
    pub(crate) flags: u32,
    pub(crate) error: u32,
    pub(crate) body: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Reply {
    /// Returns the body of a successful reply.
    #[track_caller]
    pub(crate) fn ok(self) -> Vec<u8> {
        assert_eq!((self.flags, self.error), (REPLY, 0), "command {} failed", self.command);
        self.body
    }

    /// Returns the errno of an error reply. Only the reply to an access has a body: see
    /// [`Reply::refused_access`].
    #[track_caller]
    pub(crate) fn errno(self) -> u32 {
        assert!(self.body.is_empty() || [REGION_READ, REGION_WRITE].contains(&self.command));
        self.refused_access().0
    }

    /// Returns the errno and the body of the reply to a failed access.
    #[track_caller]
    pub(crate) fn refused_access(self) -> (u32, Vec<u8>) {
        assert_eq!(self.flags, REPLY | ERROR, "command {} did not fail", self.command);
        assert!(self.fds.is_empty());
        (self.error, self.body)
    }
}

/// A raw client.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    next_id: u16,
    received: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Client {
    pub(crate) fn connect(server: &Server) -> Client {
        let stream = UnixStream::connect(server.path()).unwrap();
        stream.set_nonblocking(true).unwrap();
        Client { stream, next_id: 100, received: vec![], fds: vec![] }
    }

    /// Sends bytes unchanged.
    pub(crate) fn send_raw(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let sent =
            sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(sent, bytes.len(), "the socket's buffer is full");
    }

    /// Returns the next whole reply, if there is one.
    pub(crate) fn receive(&mut self) -> Option<Reply> {
        self.fill();
        let header = self.received.get(..16)?;
        let size = u32_at(header, 4) as usize;
        if self.received.len() < size {
            return None;
        }
        let message: Vec<u8> = self.received.drain(..size).collect();
        Some(Reply {
            id: u16::from_ne_bytes([message[0], message[1]]),
            command: u16::from_ne_bytes([message[2], message[3]]),
            flags: u32_at(&message, 8),
            error: u32_at(&message, 12),
            body: message[16..].to_vec(),
            fds: std::mem::take(&mut self.fds),
        })
    }

    fn fill(&mut self) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut buffer)];
            match recvmsg(&self.stream, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(message) if message.bytes > 0 => {
                    for item in ancillary.drain() {
                        if let RecvAncillaryMessage::ScmRights(fds) = item {
                            self.fds.extend(fds);
                        }
                    }
                    self.received.extend_from_slice(&buffer[..message.bytes]);
                }
                _ => return,
            }
        }
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.fill();
        let mut byte = [0];
        matches!(rustix::io::read(&self.stream, &mut byte), Ok(0) | Err(rustix::io::Errno::CONNRESET))
    }
}

/// A server with its function, and one client.
pub(crate) struct Harness {
    pub(crate) server: Server,
    pub(crate) function: Scratch,
    pub(crate) client: Client,
    _folder: TempDir,
}

impl Harness {
    /// Returns a harness whose client has connected but has not sent anything.
    pub(crate) fn silent() -> Harness {
        Harness::with(description())
    }

    pub(crate) fn with(description: Description) -> Harness {
        Harness::over(description, None)
    }

    /// Returns a harness with one BAR that is part of a file.
    pub(crate) fn over(description: Description, backing: Option<Backing>) -> Harness {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::bind_over(&folder.path().join("function"), description, backing).unwrap();
        let client = Client::connect(&server);
        let mut function = Scratch::default();
        while server.process(&mut function).unwrap() > 0 || !server.has_client() {}
        Harness { server, function, client, _folder: folder }
    }

    /// Returns a harness whose client has negotiated the version.
    pub(crate) fn ready() -> Harness {
        let mut harness = Harness::silent();
        harness.negotiate();
        harness
    }

    pub(crate) fn negotiate(&mut self) {
        self.call(VERSION, &version(0, 0, b"{\"capabilities\":{\"max_msg_fds\":16}}\0")).ok();
    }

    /// Runs the server until there is no more work, and its client's porter is idle, too.
    pub(crate) fn pump(&mut self) {
        eventually(|| {
            self.turns();
            self.server.is_idle() && !self.is_readable()
        });
    }

    /// Runs the server until there is no more work.
    pub(crate) fn turns(&mut self) {
        while self.is_readable() {
            self.server.process(&mut self.function).unwrap();
        }
    }

    /// Whether the server's descriptor is readable.
    pub(crate) fn is_readable(&self) -> bool {
        is_readable(self.server.as_fd())
    }

    /// Sends a command without waiting for the reply. Returns its id.
    pub(crate) fn send(&mut self, command: u16, flags: u32, body: &[u8], fds: &[BorrowedFd<'_>]) -> u16 {
        let id = self.client.next_id;
        self.client.next_id += 1;
        let size = 16 + body.len() as u32;
        self.client.send_raw(&message(id, command, size, flags, body), fds);
        id
    }

    /// Sends a command and returns its reply.
    #[track_caller]
    pub(crate) fn call(&mut self, command: u16, body: &[u8]) -> Reply {
        self.call_with_fds(command, body, &[])
    }

    #[track_caller]
    pub(crate) fn call_with_fds(&mut self, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) -> Reply {
        let id = self.send(command, 0, body, fds);
        self.pump();
        let reply = self.client.receive().expect("no reply");
        assert_eq!((reply.id, reply.command), (id, command), "a reply to something else");
        reply
    }

    /// Replaces the client by a new one.
    pub(crate) fn reconnect(&mut self) {
        self.client = Client::connect(&self.server);
        self.pump();
    }

    pub(crate) fn read(&mut self, region: u32, offset: u64, count: u32) -> Reply {
        self.call(REGION_READ, &access(region, offset, count))
    }

    pub(crate) fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Reply {
        self.call(REGION_WRITE, &[&access(region, offset, data.len() as u32), data].concat())
    }

    /// Allows the function to access memory and to interrupt.
    pub(crate) fn enable_bus_master(&mut self) {
        self.write(CONFIG, 4, &[6, 0]).ok();
    }

    pub(crate) fn map(
        &mut self,
        flags: u32,
        offset: u64,
        address: u64,
        size: u64,
        fds: &[BorrowedFd<'_>],
    ) -> Reply {
        self.call_with_fds(DMA_MAP, &dma_map(flags, offset, address, size), fds)
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.function.events)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.server.counters().refused
    }
}

/// Waits for a condition that is met soon, but the machine may be short of CPU time.
#[track_caller]
pub(crate) fn eventually(mut comes: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if comes() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it does not come");
}

pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)).unwrap() > 0
}

pub(crate) fn message(id: u16, command: u16, size: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = [id.to_ne_bytes(), command.to_ne_bytes()].concat();
    bytes.extend([size, flags, 0].into_iter().flat_map(u32::to_ne_bytes));
    bytes.extend(body);
    bytes
}

pub(crate) fn u32s(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub(crate) fn u64s(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes[offset..offset + 4].try_into().unwrap())
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(bytes[offset..offset + 8].try_into().unwrap())
}

pub(crate) fn version(major: u16, minor: u16, data: &[u8]) -> Vec<u8> {
    [&major.to_ne_bytes()[..], &minor.to_ne_bytes(), data].concat()
}

pub(crate) fn access(region: u32, offset: u64, count: u32) -> Vec<u8> {
    [u64s(&[offset]), u32s(&[region, count])].concat()
}

pub(crate) fn dma_map(flags: u32, offset: u64, address: u64, size: u64) -> Vec<u8> {
    [u32s(&[32, flags]), u64s(&[offset, address, size])].concat()
}

pub(crate) fn dma_unmap(flags: u32, address: u64, size: u64) -> Vec<u8> {
    [u32s(&[24, flags]), u64s(&[address, size])].concat()
}

pub(crate) fn memfd(size: u64) -> OwnedFd {
    let fd = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, size).unwrap();
    fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
    fd
}

pub(crate) fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

/// Returns how often an eventfd was signalled since the last call.
pub(crate) fn signals(eventfd: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    rustix::io::read(eventfd, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
}

/// Whether all duplicates of this pipe's write end are closed.
pub(crate) fn pipe_is_closed(reader: &OwnedFd) -> bool {
    let mut byte = [0];
    matches!(rustix::io::read(reader, &mut byte), Ok(0))
}
