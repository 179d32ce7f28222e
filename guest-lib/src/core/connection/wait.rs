//! Blocking on files of the driver.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Returns the end of a timeout. An end beyond the range of `Instant` means no timeout.
pub(super) fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// Blocks until one of the files may be ready; returns `false` on timeout.
pub(super) fn wait_for_any(files: &[impl AsFd], until: Option<Instant>) -> Result<bool> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    if left == Some(Duration::ZERO) {
        return Ok(false);
    }
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    let news = PollFlags::IN | PollFlags::OUT;
    let mut polled: Vec<_> = files.iter().map(|file| PollFd::new(file, news)).collect();
    match poll(&mut polled, left.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(true),
        Err(errno) => Err(Error::system("wait for an answer from any host")(errno.into())),
    }
}

/// Calls `look` until it returns a value; sleeps on `file` in between until it has `news`.
pub(super) fn wait_for<T>(
    what: &'static str,
    (file, news): (BorrowedFd<'_>, PollFlags),
    timeout: Option<Duration>,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = deadline(timeout);
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(Error::TimedOut { what, after: timeout.unwrap_or_default() });
        }
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&file, news)], left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::system(format!("wait for the {what}"))(errno.into())),
        }
    }
}
