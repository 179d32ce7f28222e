//! Last words to peers.
//!
//! To shut a peer's socket down, or to send to it, wakes everything that polls it, and the peer
//! chooses how much that is. It always ends, unlike a close, so one thread does it for all peers of
//! the process, and a peer whose porter is stuck hears at once all the same.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

use rustix::net::{Shutdown, shutdown};

use crate::porter::{Kept, Porter, Porters};

static THREAD: LazyLock<Option<Porter>> = LazyLock::new(|| Porters::new(1).hire().ok());

/// Says something to a peer that is ended, and hangs up. Never waits. The peer's porter still
/// closes the socket.
///
/// If the system has no descriptor or thread left, or the thread is far behind, the peer hears
/// nothing before the close.
pub fn part(socket: &Kept<OwnedFd>, say: impl FnOnce(BorrowedFd<'_>) + Send + 'static) {
    let Some(thread) = THREAD.as_ref().filter(|thread| !thread.is_full()) else { return };
    let Ok(copy) = socket.try_clone() else { return };
    // The last copy that is closed may take long to close.
    let copy = socket.porter().keep(copy);
    thread.run(move || {
        say(copy.as_fd());
        hang_up(copy.as_fd());
    });
}

/// Hangs up. Both sides hear of it as if the other had died.
pub fn hang_up(socket: impl AsFd) {
    // It fails if the other side is gone: then there is nothing to end.
    let _ = shutdown(socket, Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvFlags, SendFlags, recv, send};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    #[test]
    fn peer_hears_although_its_porter_is_stuck() {
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
