//! What wakes one end of a link.
//!
//! Each end has one eventfd, whatever it sleeps for: new packets, room, or both. The other end writes to it only when
//! this one has declared in shared memory that it sleeps.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, ReadWriteFlags, preadv2, write};

/// An eventfd that says: look at your rings.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that has not rung.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// A bell that another process made.
    pub(crate) fn from_fd(fd: OwnedFd) -> Bell {
        Bell(fd)
    }

    /// Wakes whoever waits.
    pub fn ring(&self) {
        // The other side can make the descriptor a blocking one, and fill it: then it rings already.
        let mut room = [PollFd::new(&self.0, PollFlags::OUT)];
        if poll(&mut room, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0) {
            return;
        }
        loop {
            match write(&self.0, &1u64.to_ne_bytes()) {
                Err(Errno::INTR) => {}
                // Full: it rings already. Any other error is the other side's doing, and its loss.
                _ => return,
            }
        }
    }

    /// Stops ringing. To be called before looking at the rings, else a wake-up between the two would be lost.
    pub fn silence(&self) {
        let mut count = [0; 8];
        // The other side can make the descriptor a blocking one: say for each read that it is not.
        while preadv2(&self.0, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT)
            == Err(Errno::INTR)
        {}
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(bell: &Bell) -> bool {
        let mut fds = [PollFd::new(bell, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn a_bell_rings_until_it_is_silenced() {
        let bell = Bell::new().unwrap();
        assert!(!rings(&bell));
        bell.ring();
        bell.ring();
        assert!(rings(&bell));
        bell.silence();
        assert!(!rings(&bell));
    }

    #[test]
    fn silencing_a_bell_that_the_other_side_made_blocking_does_not_block() {
        let bell = Bell::new().unwrap();
        rustix::io::ioctl_fionbio(&bell, false).unwrap();
        bell.silence();
        bell.ring();
        bell.silence();
        assert!(!rings(&bell));
    }

    #[test]
    fn ringing_a_bell_that_the_other_side_filled_and_made_blocking_does_not_block() {
        let bell = Bell::new().unwrap();
        rustix::io::ioctl_fionbio(&bell, false).unwrap();
        write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        bell.ring();
        assert!(rings(&bell));
    }
}
