//! What wakes one end of a link.
//!
//! Each end has a socket of its own, whatever it sleeps for: new packets, room, or both. To ring is to send one byte to
//! the other end, which is done only when that one has declared in shared memory that it sleeps. Between processes it is
//! the socket by which the card attached, so that its hang-up says, too, that the other is gone.
//!
//! The process at the other end is not trusted. An eventfd would be one file for both sides, and who shares it can make
//! it block whoever writes to it; a pipe has a lock that its reader can hold. A datagram on a socket has neither: each side
//! has flags of its own, and a send that must not wait takes no lock that the receiver holds for long.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hamlyn_door::Kept;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, Shutdown, SocketFlags, SocketType,
    recv, recvmsg, send, shutdown, socketpair,
};

use crate::meter::Meter;

/// The reason when the other side has hung up, in good order or by dying.
pub const GONE: &str = "it is gone";
/// What is said to wake the other side.
const RING: &[u8] = b"!";

/// An end's socket, and who closes it.
#[derive(Debug)]
pub enum Socket {
    /// Whoever drops it.
    Own(OwnedFd),
    /// A porter. Closing the socket also closes what the other side has sent and nobody has heard. That may take as long as the
    /// other side likes, so it is not for a thread that others wait for.
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

/// One end of a wake-up in both directions: rings the other end, and hears whether that one has rung.
#[derive(Debug)]
pub struct Bell {
    socket: Socket,
    meter: Meter,
}

/// What a bell has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The other side has not rung.
    Nothing,
    /// It has: look at the rings. It may have rung more than once; then there is more to hear.
    Ring,
    /// There is no other side any more, or none that keeps to the rules. The reason is for people.
    End(&'static str),
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
        Bell { socket, meter: Meter::new() }
    }

    /// Wakes the other side. Never blocks.
    pub fn ring(&self) {
        let rung = self.watched(|| send(&self.socket, RING, SendFlags::DONTWAIT | SendFlags::NOSIGNAL));
        match rung {
            // Full: earlier rings that have not been heard yet will wake the other side.
            Ok(_) | Err(Errno::AGAIN) => {}
            // Out of memory, perhaps. Better no link than one whose other side may sleep for ever.
            Err(_) => self.end(),
        }
    }

    /// Hears a ring, if there is one. To be called before looking at the rings, else a wake-up between the two would be
    /// lost. Never blocks.
    ///
    /// A message that carries descriptors is left where it is, and them with it: they are the other side's, and to close
    /// them may block. They close with the [`Socket`].
    pub fn hear(&self) -> Heard {
        if self.meter.is_over() {
            return Heard::End("to wake it takes too long");
        }
        let mut bytes = [0; RING.len() + 1];
        match look(&self.socket, &mut bytes) {
            Err(Errno::AGAIN | Errno::INTR) => return Heard::Nothing,
            Ok((_, true)) => return Heard::End("it passed descriptors, which nobody asked for"),
            Ok((0, _)) | Err(_) => return Heard::End(GONE),
            Ok((length, _)) if length != RING.len() => return Heard::End("it spoke out of turn"),
            Ok(_) => {}
        }
        // Nobody else reads here: it is the same message.
        match self.watched(|| recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT)) {
            Ok(_) => Heard::Ring,
            Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
            Err(_) => Heard::End(GONE),
        }
    }

    /// Wakes whoever watches the other end, and looks what that costs.
    fn watched<T>(&self, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let result = self.meter.measure(act);
        if self.meter.is_over() {
            self.end();
        }
        result
    }

    /// Hangs up, so that both sides hear of it as if the other had died.
    fn end(&self) {
        // It fails if the other side is gone: then there is nothing to end.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Looks at the next message of a SEQPACKET socket: how long it is, as far as there is space for it, and whether it carries
/// descriptors. Takes neither, so nothing of the other side's is closed here. Never blocks.
pub(crate) fn look(socket: impl AsFd, bytes: &mut [u8]) -> Result<(usize, bool), Errno> {
    let how = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    // What there is no space for is reported as cut off.
    let mut none = RecvAncillaryBuffer::default();
    let seen = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut none, how)?;
    Ok((seen.bytes, seen.flags.contains(ReturnFlags::CTRUNC)))
}

#[cfg(test)]
#[path = "bell_tests.rs"]
mod tests;
