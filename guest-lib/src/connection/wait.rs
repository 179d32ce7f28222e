//! Sleeping until a file of the driver has news.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Calls `look` until it finds something, and sleeps on `file` in between until it has `news`.
pub(super) fn wait_for<T>(
    what: &'static str,
    (file, news): (BorrowedFd<'_>, PollFlags),
    timeout: Option<Duration>,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    // A time-out past the end of time is none.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
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
