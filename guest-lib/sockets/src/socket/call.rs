//! A call of the program that receives or sends.

use std::time::{Duration, Instant};

/// How a call receives or sends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    pub(crate) peek: bool,
    pub(crate) all: bool,
    pub(crate) at_once: bool,
}

/// Files of one sleep at most: TCP's, that of the coming channel, one for each direction, and the
/// thread's bell.
pub(super) const FILES: usize = 5;
pub(super) const NO_FILE: libc::pollfd = libc::pollfd { fd: -1, events: 0, revents: 0 };

/// A call of the program that may sleep in between. It has no destructor: the program may cancel
/// its thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Call {
    /// Bytes received or sent so far.
    pub(crate) done: usize,
    /// When it ends by the socket's options, once that was asked.
    end: Option<Option<Instant>>,
}

/// What a call does next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Done(Result<usize, i32>),
    Sleep(Sleep),
}

/// Files to sleep at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sleep {
    pub(crate) files: [libc::pollfd; FILES],
    pub(crate) count: usize,
    pub(crate) left: Option<Duration>,
}

impl Call {
    /// The time that is left by the socket's options.
    pub(super) fn left(
        &mut self,
        timeout: impl FnOnce() -> Option<Duration>,
    ) -> Result<Option<Duration>, i32> {
        let end = *self.end.get_or_insert_with(|| timeout().map(|timeout| Instant::now() + timeout));
        match end.map(|end| end.saturating_duration_since(Instant::now())) {
            Some(left) if left.is_zero() => Err(libc::EAGAIN),
            left => Ok(left),
        }
    }

    /// An error is reported by the next call, if this one has done something.
    pub(super) fn end(&self, error: i32) -> Step {
        Step::Done(if self.done > 0 { Ok(self.done) } else { Err(error) })
    }
}
