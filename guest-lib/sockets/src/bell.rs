//! What wakes a thread that sleeps at a connection when another thread has changed how it has to
//! wait there. Each thread has one bell.

use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FileType, fstat};
use rustix::io::{read, write};

/// A thread's bell.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

thread_local! {
    static OWN: RefCell<Option<Arc<Bell>>> = const { RefCell::new(None) };
}

impl Bell {
    /// This thread's bell. `None`: there are no descriptors left, or the thread ends.
    fn own() -> Option<Arc<Self>> {
        let own = OWN.try_with(|own| {
            let mut own = own.try_borrow_mut().ok()?;
            if own.is_none() {
                let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
                *own = Some(Arc::new(Self(file)));
            }
            own.clone()
        });
        own.ok().flatten()
    }

    /// Wakes the thread. A program that closes all descriptors may have closed this one, and opened
    /// a file under its number: nothing is written to that.
    fn ring(&self) {
        let is_ours =
            fstat(&self.0).is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Unknown);
        if is_ours {
            // It fails only if it has rung very often.
            let _ = write(&self.0, &1_u64.to_ne_bytes());
        }
    }
}

/// Silences this thread's bell, before it looks for the last time at each connection.
pub(crate) fn hush() {
    if let Some(own) = Bell::own() {
        // It may not have rung.
        let _ = read(&own.0, &mut [0; 8]);
    }
}

/// Bells of threads that may be asleep at a connection.
#[derive(Debug, Default)]
pub(crate) struct Sleepers(Mutex<Vec<Weak<Bell>>>);

impl Sleepers {
    /// Adds this thread, after [`hush`] and before it looks for the last time. Returns its bell's
    /// file, to be polled.
    pub(crate) fn add(&self) -> Option<RawFd> {
        let own = Bell::own()?;
        let mut sleepers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !sleepers.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(&own))) {
            sleepers.retain(|other| other.strong_count() > 0);
            sleepers.push(Arc::downgrade(&own));
        }
        Some(own.0.as_raw_fd())
    }

    /// Wakes all of them.
    pub(crate) fn rouse(&self) {
        let sleepers = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        sleepers.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
    }
}

/// In a child: the parent's bell is not its own.
pub(crate) fn begin_anew() {
    OWN.set(None);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::foreign;

    fn rings(file: RawFd) -> bool {
        foreign::poll_now(file, libc::POLLIN) != 0
    }

    #[test]
    fn sleepers_are_roused_once() {
        let sleepers = Sleepers::default();
        let own = sleepers.add().expect("a bell");
        assert_eq!(sleepers.add(), Some(own));
        assert!(!rings(own));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let file = sleepers.add().expect("a bell");
                let mut files = [libc::pollfd { fd: file, events: libc::POLLIN, revents: 0 }];
                foreign::poll(&mut files, Some(Duration::from_secs(20)), None).map(|found| (file, found))
            });
            while sleepers.0.lock().expect("a lock").len() < 2 {
                std::thread::yield_now();
            }
            sleepers.rouse();
            let (file, found) = other.join().expect("a thread").expect("a poll");
            assert!(found > 0 && file != own);
        });
        assert!(rings(own));
        assert_eq!(Sleepers::default().add(), Some(own));
        assert!(rings(own), "another connection does not silence it");
        hush();
        assert!(!rings(own));
        assert_eq!(sleepers.add(), Some(own));
        // One that has ended is forgotten.
        let gone = std::thread::scope(|scope| scope.spawn(|| sleepers.add()).join().expect("a thread"));
        assert!(gone.is_some());
        sleepers.rouse();
        assert!(rings(own));
    }
}
