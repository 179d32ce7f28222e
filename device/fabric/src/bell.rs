//! What wakes one end of a link.
//!
//! Each end has a socket of its own, whatever it sleeps for: new packets, room, or both. To ring is
//! to send one byte to the other end, which is done only when that one has declared in shared
//! memory that it sleeps. Between processes it is the socket by which the card attached, so that
//! its hang-up says, too, that the other is gone.
//!
//! The process at the other end is not trusted. An eventfd would be one file for both sides, and
//! who shares it can make it block whoever writes to it; a pipe has a lock that its reader can
//! hold. A datagram on a socket has neither: each side has flags of its own, and a send that must
//! not wait takes no lock that the receiver holds for long.

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

/// What is said to wake the other side.
const RING: &[u8] = b"!";
/// Begins the last message of a side that hangs up; the number of its [`Reason`] follows.
const FAREWELL: u8 = b'.';

/// Why a link ends. Which side it is about, [`End`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its wake-ups were slow too often, because of what polls its socket.
    Slow = 1,
    /// It passed descriptors.
    Descriptors,
    /// It sent something that is not a message of a bell.
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
    /// The other side is gone, in good order or by dying.
    Gone,
    /// This side ended it, for something that the other side did.
    ByUs(Reason),
    /// The other side ended it, for something that it says this side did.
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

/// An end's socket, and who closes it.
#[derive(Debug)]
pub enum Socket {
    /// Whoever drops it.
    Own(OwnedFd),
    /// A porter. Closing the socket also closes what the other side has sent and nobody has heard.
    /// That may take as long as the other side likes, so it is not for a thread that others wait
    /// for.
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

/// One end of a wake-up in both directions: rings the other end, and hears whether that one has
/// rung.
#[derive(Debug)]
pub struct Bell {
    socket: Socket,
    meter: Meter,
    /// Why this side has ended the link, once it has. Then its socket is not touched again.
    ended: OnceLock<Reason>,
    /// A ring has failed, and the socket is shut down or soon will be. Earlier messages of the
    /// other side can still be read.
    is_gone: AtomicBool,
}

/// What a bell has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The other side has not rung.
    Nothing,
    /// It has: look at the rings. It may have rung more than once; then there is more to hear.
    Ring,
    /// The link is over.
    End(End),
}

impl Bell {
    /// Both ends of a bell inside one process.
    pub fn pair() -> io::Result<(Bell, Bell)> {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Bell::over(one.into()), Bell::over(other.into())))
    }

    /// An end whose other end another process has: a SEQPACKET socket.
    pub fn over(socket: Socket) -> Bell {
        Bell { socket, meter: Meter::new(), ended: OnceLock::new(), is_gone: AtomicBool::new(false) }
    }

    /// Wakes the other side. Never blocks. Does nothing once this side has ended the link, or a
    /// ring has failed.
    pub fn ring(&self) {
        if self.ended.get().is_some() || self.is_gone.load(Ordering::Relaxed) {
            return;
        }
        let rung = self.watched(|| send(&self.socket, RING, SendFlags::DONTWAIT | SendFlags::NOSIGNAL));
        match rung {
            // Full: earlier rings that have not been heard yet will wake the other side.
            Ok(_) | Err(Errno::AGAIN) => {}
            // The other side has hung up, or memory is out. Better no link than one whose other
            // side may sleep for ever. Only once, because each shutdown wakes all watchers of the
            // other side's socket.
            Err(_) => {
                self.is_gone.store(true, Ordering::Relaxed);
                self.leave(|_| {});
            }
        }
    }

    /// Hears a ring, if there is one. To be called before looking at the rings, else a wake-up
    /// between the two would be lost. Never blocks.
    ///
    /// A message that carries descriptors is left where it is, and them with it: they are the other
    /// side's, and to close them may block. They close with the [`Socket`].
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
        // Nobody else reads here: it is the same message.
        match self.watched(|| recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT)) {
            Ok(_) => Heard::Ring,
            Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
            Err(_) => Heard::End(End::Gone),
        }
    }

    /// Ends the link for something that the other side did: tells it what, and hangs up. The bell
    /// becomes readable. Only the first call has an effect.
    pub fn end(&self, reason: Reason) {
        if self.ended.set(reason).is_err() {
            return;
        }
        let farewell = move |socket: BorrowedFd<'_>| {
            // It fails if the other side is gone, or does not listen.
            let _ = send(socket, &[FAREWELL, reason as u8], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        };
        self.leave(farewell);
    }

    /// Says something to the other side, and hangs up.
    fn leave(&self, say: impl FnOnce(BorrowedFd<'_>) + Send + 'static) {
        match &self.socket {
            Socket::Own(socket) => {
                say(socket.as_fd());
                hang_up(socket);
            }
            Socket::Kept(socket) => part(socket, say),
        }
    }

    /// How long a peer whose wake-ups were slow is to stay out.
    pub fn penalty(&self) -> Duration {
        self.meter.penalty()
    }

    fn break_off(&self, reason: Reason) -> Heard {
        self.end(reason);
        Heard::End(End::ByUs(reason))
    }

    /// Does what wakes the other side, and ends the link if that was slow too often.
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

/// Looks at the next message of a SEQPACKET socket: how long it is, as far as there is space for
/// it, and whether it carries descriptors. Takes neither, so nothing of the other side's is closed
/// here. Never blocks.
pub(crate) fn look(socket: impl AsFd, bytes: &mut [u8]) -> Result<(usize, bool), Errno> {
    let how = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    // What there is no space for is reported as cut off.
    let mut none = RecvAncillaryBuffer::default();
    let mut peek = || recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut none, how);
    let seen = match peek() {
        // The other side has hung up without hearing us, which is reported once. What it said
        // before is there.
        Err(Errno::CONNRESET) => peek(),
        other => other,
    }?;
    Ok((seen.bytes, seen.flags.contains(ReturnFlags::CTRUNC)))
}

#[cfg(test)]
#[path = "bell_tests.rs"]
mod tests;
