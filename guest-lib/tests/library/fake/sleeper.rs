//! Wakes the waiter of a terminus once the fake card has completed its requests.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

#[derive(Debug)]
pub(super) struct Sleeper {
    /// Readable once the terminus has reached the number it was armed for.
    file: Arc<OwnedFd>,
    wanted: Option<u32>,
}

/// Returns whether `done` completed requests are at least `wanted`.
pub(super) fn has_reached(done: u32, wanted: u32) -> bool {
    done.wrapping_sub(wanted) as i32 >= 0
}

impl Sleeper {
    pub(super) fn new() -> Self {
        Self { file: Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()), wanted: None }
    }

    pub(super) fn file(&self) -> Arc<OwnedFd> {
        self.file.clone()
    }

    pub(super) fn arm(&mut self, done: u32, wanted: u32) -> bool {
        let _ = read(&self.file, &mut [0_u8; 8]);
        let over = has_reached(done, wanted);
        self.wanted = (!over).then_some(wanted);
        over
    }

    /// Wakes the waiter if enough requests are completed.
    pub(super) fn look(&mut self, done: u32) {
        if self.wanted.is_some_and(|wanted| has_reached(done, wanted)) {
            self.wanted = None;
            write(&self.file, &1_u64.to_ne_bytes()).unwrap();
        }
    }
}
