//! The bell: wakes one end of a link.
//!
//! Each end has one socket, whether it sleeps for new packets, for room or for both. Ringing sends
//! one byte to the other end. An end rings only if the other end has set its sleep flag in shared
//! memory. Between processes, the socket is the one that the card attached by. So its hang-up also
//! shows that the other end is gone.
//!
//! The process at the other end is not trusted. An eventfd would be one file for both sides, so the
//! peer could make our write block. A pipe has a lock that its reader can hold. A datagram socket
//! has neither problem. Each side has its own file flags, and a non-blocking send takes no lock
//! that the receiver holds for long.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hamlyn_door::{Kept, Meter, hang_up, part};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, SocketFlags, SocketType, recv,
    recvmsg, send, socketpair,
};

/// Message that wakes the other side.
const RING: &[u8] = b"!";
/// First byte of the last message of a side that hangs up; the number of its [`Reason`] follows.
const FAREWELL: u8 = b'.';

/// Why a link ended. [`End`] defines which side it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Waking it was slow too often, because of what polls its socket.
    Slow = 1,
    /// It passed descriptors.
    Descriptors,
    /// It sent something that is not a bell message.
    OutOfTurn,
    /// Its ring is corrupt.
    Corrupt,
    /// It took no packet for the stall time-out while others waited for it.
    Stalled,
}

impl Reason {
    const ALL: [Reason; 5] =
        [Reason::Slow, Reason::Descriptors, Reason::OutOfTurn, Reason::Corrupt, Reason::Stalled];

    fn of(number: u8) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| *reason as u8 == number)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Slow => "its wake-ups take too long, several times in a row: too much polls its socket",
            Reason::Descriptors => "it passed descriptors",
            Reason::OutOfTurn => "it spoke out of turn",
            Reason::Corrupt => "its ring is corrupt",
            Reason::Stalled => "it took no packet for the stall time-out while others waited for it",
        })
    }
}

/// How a link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The other side is gone: it closed the link or died.
    Gone,
    /// This side ended it because of something the other side did.
    ByUs(Reason),
    /// The other side ended it and blames something this side did.
    ByOther(Reason),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Gone => f.write_str("it is gone"),
            End::ByUs(reason) => reason.fmt(f),
            End::ByOther(reason) => write!(f, "it ended the link and says of this side: {reason}"),
        }
    }
}

/// An end's socket, and how it is closed.
#[derive(Debug)]
pub enum Socket {
    /// Closed by the thread that drops it.
    Own(OwnedFd),
    /// Closed by a porter. Closing the socket also closes everything the peer has sent and this
    /// side has not received. That may take as long as the peer likes, so a thread that serves
    /// others must not do it.
    Kept(Kept<OwnedFd>),
}

impl From<OwnedFd> for Socket {
    fn from(socket: OwnedFd) -> Socket {
        Socket::Own(socket)
    }
}

impl From<Kept<OwnedFd>> for Socket {
    fn from(socket: Kept<OwnedFd>) -> Socket {
        Socket::Kept(socket)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Own(socket) => socket.as_fd(),
            Socket::Kept(socket) => socket.as_fd(),
        }
    }
}

/// One end of a wake-up in both directions: rings the other end and receives its rings.
#[derive(Debug)]
pub struct Bell {
    socket: Socket,
    meter: Meter,
    /// Why this side ended the link, if it did. Its socket is not used again after that.
    ended: OnceLock<Reason>,
    /// A ring has failed, and the socket is shut down or soon will be. Earlier messages of the
    /// other side can still be read.
    is_gone: AtomicBool,
}

/// Result of [`Bell::hear`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The other side has not rung.
    Nothing,
    /// It has: check the rings. If it has rung more than once, more calls return this.
    Ring,
    /// The link has ended.
    End(End),
}

impl Bell {
    /// Returns both ends of a bell inside one process.
    pub fn pair() -> io::Result<(Bell, Bell)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Bell::over(one.into()), Bell::over(other.into())))
    }

    /// Returns an end whose other end is in another process. `socket` is a SEQPACKET socket.
    pub fn over(socket: Socket) -> Bell {
        Bell { socket, meter: Meter::new(), ended: OnceLock::new(), is_gone: AtomicBool::new(false) }
    }

    /// Wakes the other side. Never blocks. Does nothing if this side has ended the link or a ring
    /// has failed.
    pub fn ring(&self) {
        if self.ended.get().is_some() || self.is_gone.load(Ordering::Relaxed) {
            return;
        }
        let rung = self.watched(|| send(&self.socket, RING, SendFlags::DONTWAIT | SendFlags::NOSIGNAL));
        match rung {
            // The socket is full: earlier rings that the other side has not received yet will wake
            // it.
            Ok(_) | Err(Errno::AGAIN) => {}
            // The other side has hung up, or memory is exhausted. Ending the link is better than a
            // peer that may sleep forever. Shut down only once: each shutdown wakes all watchers of
            // the peer's socket.
            Err(_) => {
                self.is_gone.store(true, Ordering::Relaxed);
                self.leave(|_| {});
            }
        }
    }

    /// Receives a ring, if there is one. Never blocks. Call this before checking the rings;
    /// otherwise a wake-up between the two would be lost.
    ///
    /// A message that carries descriptors is left in the socket, and its descriptors too. They are
    /// the peer's, and closing them may block. They are closed with the [`Socket`].
    pub fn hear(&self) -> Heard {
        if let Some(reason) = self.ended.get() {
            return Heard::End(End::ByUs(*reason));
        }
        let mut bytes = [0; 3];
        match look(&self.socket, &mut bytes) {
            Err(Errno::AGAIN | Errno::INTR) => return Heard::Nothing,
            Ok((_, true)) => return self.break_off(Reason::Descriptors),
            Ok((0, _)) | Err(_) => return Heard::End(End::Gone),
            Ok((length, _)) => match &bytes[..length] {
                RING => {}
                &[FAREWELL, number] if Reason::of(number).is_some() => {
                    return Heard::End(Reason::of(number).map_or(End::Gone, End::ByOther));
                }
                _ => return self.break_off(Reason::OutOfTurn),
            },
        }
        // This is the socket's only reader, so this is the same message.
        match self.watched(|| recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT)) {
            Ok(_) => Heard::Ring,
            Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
            Err(_) => Heard::End(End::Gone),
        }
    }

    /// Ends the link because of something the other side did: sends it the reason, and hangs up.
    /// The bell becomes readable. Only the first call has an effect.
    pub fn end(&self, reason: Reason) {
        if self.ended.set(reason).is_err() {
            return;
        }
        let farewell = move |socket: BorrowedFd<'_>| {
            // Fails if the other side is gone or its socket is full.
            let _ = send(socket, &[FAREWELL, reason as u8], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        };
        self.leave(farewell);
    }

    /// Sends a last message to the other side, and hangs up.
    fn leave(&self, say: impl FnOnce(BorrowedFd<'_>) + Send + 'static) {
        match &self.socket {
            Socket::Own(socket) => {
                say(socket.as_fd());
                hang_up(socket);
            }
            Socket::Kept(socket) => part(socket, say),
        }
    }

    /// Returns how long a peer whose wake-ups were slow must stay out.
    pub fn penalty(&self) -> Duration {
        self.meter.penalty()
    }

    fn break_off(&self, reason: Reason) -> Heard {
        self.end(reason);
        Heard::End(End::ByUs(reason))
    }

    /// Runs `act`, which wakes the other side. Ends the link if that was slow too often.
    fn watched<T>(&self, act: impl FnOnce() -> T) -> T {
        let result = self.meter.measure(RING.len(), act);
        if self.meter.is_over() {
            self.end(Reason::Slow);
        }
        result
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Peeks at the next message of a SEQPACKET socket. Returns its length, limited to the size of
/// `bytes`, and whether it carries descriptors. It consumes neither, so nothing of the peer's is
/// closed here. Never blocks.
pub fn look(socket: impl AsFd, bytes: &mut [u8]) -> Result<(usize, bool), Errno> {
    let how = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    // Descriptors that do not fit are reported as truncated (`MSG_CTRUNC`).
    let mut none = RecvAncillaryBuffer::default();
    let mut peek = || recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut none, how);
    let seen = match peek() {
        // The other side hung up with messages of ours unread, which is reported once. What it sent
        // before can still be read.
        Err(Errno::CONNRESET) => peek(),
        other => other,
    }?;
    Ok((seen.bytes, seen.flags.contains(ReturnFlags::CTRUNC)))
}

#[cfg(test)]
#[path = "bell_tests.rs"]
mod tests;
