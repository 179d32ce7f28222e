//! A channel as the engine's link, and the files to wait on.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use hamlyn::channel::{Channel, Message, Options, Receiver, Sender};
use hamlyn::{Error, PeerLoss};

use crate::engine::transport::{Content, Link, Packet};
use crate::engine::wire::HEADER;

/// Size of each direction's ring. An echo card has rings of up to 488 KiB.
const RING: u64 = 256 << 10;
/// Looks at a quiet link before it is asked whether the peer is lost, which takes the clock.
const LOOKS: u32 = 256;

/// Options of every channel of the provider. `FI_HAMLYN_EXPRESS=no` has messages go by card even
/// where both hosts share express memory.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.capacity = RING;
    let express = std::env::var("FI_HAMLYN_EXPRESS").unwrap_or_default();
    options.by_card = ["no", "off", "false", "0"].contains(&express.to_lowercase().as_str());
    options
}

/// A channel.
#[derive(Debug)]
pub(crate) struct ChannelLink {
    sender: Sender,
    receiver: Receiver,
    host: u32,
    /// Whether the last look found nothing, and the number of looks since the last thorough one.
    is_empty: bool,
    looks: u32,
    /// Files that it was added to: for messages, and for room.
    added: [Option<RawFd>; 2],
}

struct Arrived<'a>(Message<'a>);

impl ChannelLink {
    pub(crate) fn new(channel: Channel) -> Self {
        let host = channel.host();
        let Channel { sender, receiver } = channel;
        Self { sender, receiver, host, is_empty: false, looks: 0, added: [None; 2] }
    }

    /// Prepares for a wait: for a message, and for room if something waits for that. Returns `true`
    /// if there may be something already.
    pub(crate) fn arm(&mut self, files: &mut Files, needs_room: bool) -> Result<bool, i32> {
        if self.receiver.arm().map_err(|error| number(&error))? {
            return Ok(true);
        }
        let file = self.receiver.file().map_err(|error| number(&error))?;
        files.add(file.as_raw_fd(), &mut self.added[0])?;
        if !needs_room {
            return Ok(false);
        }
        let length = self.sender.longest();
        if self.sender.arm(length).map_err(|error| number(&error))? {
            return Ok(true);
        }
        let file = self.sender.file().map_err(|error| number(&error))?;
        files.add(file.as_raw_fd(), &mut self.added[1])?;
        Ok(false)
    }
}

impl Link for ChannelLink {
    fn host(&self) -> u32 {
        self.host
    }

    fn longest(&self) -> usize {
        self.sender.longest()
    }

    fn send(&mut self, header: &[u8; HEADER], body: Content<'_>) -> Result<bool, i32> {
        let mut room = match self.sender.try_reserve(HEADER + body.len()) {
            Ok(room) => room,
            Err(error) if error.is_would_block() => return Ok(false),
            Err(error) => return Err(number(&error)),
        };
        let mut written = room.write(0, header);
        body.each(|at, bytes| {
            if written.is_ok() {
                written = room.write(HEADER + at, bytes);
            }
        });
        written.and_then(|()| room.commit()).map_err(|error| number(&error))?;
        Ok(true)
    }

    fn receive(&mut self, take: &mut dyn FnMut(&dyn Packet)) -> Result<bool, i32> {
        if self.is_empty && !self.receiver.has_news() && self.looks < LOOKS {
            self.looks += 1;
            return Ok(false);
        }
        (self.is_empty, self.looks) = (false, 0);
        match self.receiver.try_recv() {
            Ok(Some(message)) => {
                take(&Arrived(message));
                Ok(true)
            }
            // The peer's endpoint was closed.
            Ok(None) => Err(libc::ECONNRESET),
            Err(error) if error.is_would_block() => {
                self.is_empty = true;
                Ok(false)
            }
            Err(error) => Err(number(&error)),
        }
    }
}

impl Packet for Arrived<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), i32> {
        self.0.read(offset, to).map_err(|error| number(&error))
    }
}

/// The `errno` for an error of the library.
pub(crate) fn number(error: &Error) -> i32 {
    match error {
        Error::PeerLost(PeerLoss::Host | PeerLoss::Gone) => libc::EHOSTDOWN,
        Error::PeerLost(PeerLoss::Link) => libc::ENETDOWN,
        Error::PeerLost(PeerLoss::CardReset) => libc::ENETRESET,
        Error::PeerLost(_) => libc::ECONNRESET,
        Error::TimedOut { .. } => libc::ETIMEDOUT,
        Error::Ended(_) => libc::ECONNREFUSED,
        Error::Quota { .. } => libc::EDQUOT,
        Error::Exhausted { .. } | Error::MemoryFull { .. } => libc::ENOSPC,
        Error::Locked { .. } => libc::ENOMEM,
        Error::LinkDown => libc::ENETDOWN,
        Error::Nonsense(_) | Error::Malformed(_) => libc::EPROTO,
        _ => libc::EIO,
    }
}

/// Files to wait on together, and one to end a wait.
#[derive(Debug)]
pub(crate) struct Files {
    epoll: OwnedFd,
    event: OwnedFd,
}

impl Files {
    pub(crate) fn new() -> Result<Self, i32> {
        // SAFETY: no pointer is passed.
        let (epoll, event) = unsafe {
            (
                libc::epoll_create1(libc::EPOLL_CLOEXEC),
                libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK),
            )
        };
        let mut files = Self { epoll: owned(epoll)?, event: owned(event)? };
        let event = files.event.as_raw_fd();
        files.add(event, &mut None)?;
        Ok(files)
    }

    /// Adds a file, unless `added` says that it is part of these already.
    pub(crate) fn add(&mut self, file: RawFd, added: &mut Option<RawFd>) -> Result<(), i32> {
        let own = self.epoll.as_raw_fd();
        if added.replace(own) == Some(own) {
            return Ok(());
        }
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: one structure is passed.
        if unsafe { libc::epoll_ctl(own, libc::EPOLL_CTL_ADD, file, &mut event) } < 0
            && errno() != libc::EEXIST
        {
            return Err(errno());
        }
        Ok(())
    }

    pub(crate) fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight bytes are passed.
        unsafe { libc::write(self.event.as_raw_fd(), ptr::from_ref(&one).cast(), one.len()) };
    }

    /// Takes back [`Files::wake`].
    pub(crate) fn quiet(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: there is room for eight bytes.
        unsafe { libc::read(self.event.as_raw_fd(), ptr::from_mut(&mut count).cast(), count.len()) };
    }
}

impl AsRawFd for Files {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn owned(file: RawFd) -> Result<OwnedFd, i32> {
    if file < 0 {
        return Err(errno());
    }
    // SAFETY: the descriptor was just opened, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// A file that ends the wait of another thread.
#[derive(Debug)]
pub(crate) struct Bell(Files);

impl Bell {
    pub(crate) fn new() -> Result<Self, i32> {
        Files::new().map(Self)
    }

    pub(crate) fn ring(&self) {
        self.0.wake();
    }

    /// Waits until `file` is readable. Returns `false` if the bell rang.
    pub(crate) fn wait_for(&self, file: &impl AsFd) -> bool {
        let mut files = [file.as_fd().as_raw_fd(), self.0.event.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: the structures and their number are passed.
        unsafe { libc::poll(files.as_mut_ptr(), 2, -1) };
        files[1].revents == 0
    }
}
