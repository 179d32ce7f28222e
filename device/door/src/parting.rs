//! Last messages to peers.
//!
//! A shutdown of a peer's socket, or a send to it, wakes everything that polls it, and the peer
//! chooses how much that is. Unlike a close, it always ends. So one thread does it for all peers of
//! the process, and a peer is notified at once even if its porter is stuck.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

use rustix::net::{Shutdown, shutdown};

use crate::porter::{Kept, Porter, Porters};

static THREAD: LazyLock<Option<Porter>> = LazyLock::new(|| Porters::new(1).hire().ok());

/// Sends a last message to a peer that is disconnected, and shuts the socket down. Never blocks.
/// The peer's porter still closes the socket.
///
/// If no descriptor or thread is available, or the thread is far behind, the peer gets no message
/// before the close.
pub fn part(socket: &Kept<OwnedFd>, say: impl FnOnce(BorrowedFd<'_>) + Send + 'static) {
    let Some(thread) = THREAD.as_ref().filter(|thread| !thread.is_full()) else { return };
    let Ok(copy) = socket.try_clone() else { return };
    // Closing the last copy may take long.
    let copy = socket.porter().keep(copy);
    thread.run(move || {
        say(copy.as_fd());
        hang_up(copy.as_fd());
    });
}

/// Shuts the socket down. Both sides are notified as if the other had died.
pub fn hang_up(socket: impl AsFd) {
    // Fails if the other side is gone; then there is nothing to shut down.
    let _ = shutdown(socket, Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvFlags, SendFlags, recv, send};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    #[test]
    fn peer_is_notified_while_porter_is_stuck() {
        let (here, there) = UnixStream::pair().unwrap();
        let porter = Porters::new(1).hire().unwrap();
        let here = porter.keep(OwnedFd::from(here));
        let (free, stuck) = channel::<()>();
        porter.run(move || {
            let _ = stuck.recv();
        });
        part(&here, |socket| assert_eq!(send(socket, b"bye", SendFlags::empty()), Ok(3)));
        drop(here);
        let mut bytes = [0; 8];
        assert_eq!(recv(&there, &mut bytes[..], RecvFlags::empty()).unwrap().0, 3);
        assert_eq!(recv(&there, &mut bytes[..], RecvFlags::empty()).unwrap().0, 0);
        drop(free);
    }
}
