//! What completion queues and counters have in common: they show the progress of endpoints, and
//! programs wait at them.

use std::ffi::{c_int, c_void};
use std::fmt::Debug;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::abi::{FI_GETWAIT, FI_GETWAITOBJ, FI_WAIT_FD, FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_YIELD};
use crate::link::Files;

/// What makes progress when a program looks.
pub(crate) trait Progress: Debug + Send + Sync {
    /// Sends, receives and reports what there is.
    fn progress(&self);

    /// Prepares a wait on these files. Returns `true` if there may be something already.
    fn arm(&self, files: &mut Files) -> Result<bool, i32>;
}

/// How long a wait polls before it sleeps.
const POLLING: Duration = Duration::from_micros(50);

/// Endpoints whose progress a queue or counter shows, and the file on which to wait for them.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    endpoints: Mutex<Vec<Arc<dyn Progress>>>,
    files: Mutex<Option<Files>>,
    is_woken: AtomicBool,
}

impl Watched {
    pub(crate) fn add(&self, endpoint: Arc<dyn Progress>) {
        let mut endpoints = lock(&self.endpoints);
        if !endpoints.iter().any(|known| Arc::ptr_eq(known, &endpoint)) {
            endpoints.push(endpoint);
        }
    }

    /// Forgets an endpoint that is closed.
    pub(crate) fn remove(&self, endpoint: &dyn Progress) {
        lock(&self.endpoints).retain(|known| !ptr::addr_eq(Arc::as_ptr(known), endpoint));
    }

    pub(crate) fn progress(&self) {
        for endpoint in &*lock(&self.endpoints) {
            endpoint.progress();
        }
    }

    /// Prepares a wait on the file. Returns `true` if there may be something already.
    pub(crate) fn arm(&self) -> Result<bool, i32> {
        let mut files = lock(&self.files);
        let files = match &mut *files {
            Some(files) => files,
            none => none.insert(Files::new()?),
        };
        // Before the look: what comes after it makes the file readable again.
        files.quiet();
        for endpoint in &*lock(&self.endpoints) {
            if endpoint.arm(files)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The file for `poll`.
    fn file(&self) -> Result<c_int, i32> {
        let mut files = lock(&self.files);
        let files = match &mut *files {
            Some(files) => files,
            none => none.insert(Files::new()?),
        };
        Ok(files.as_raw_fd())
    }

    /// Ends a sleep, since an endpoint has something to do.
    pub(crate) fn rouse(&self) {
        if let Some(files) = &*lock(&self.files) {
            files.wake();
        }
    }

    /// Ends a wait.
    pub(crate) fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        if let Some(files) = &*lock(&self.files) {
            files.wake();
        }
    }

    /// Waits until `look` finds something. The limit is in milliseconds; negative: none.
    pub(crate) fn wait<T>(&self, timeout: c_int, mut look: impl FnMut() -> Option<T>) -> Result<T, i32> {
        let begun = Instant::now();
        let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
        loop {
            self.progress();
            if let Some(found) = look() {
                return Ok(found);
            }
            let passed = begun.elapsed();
            let left = limit.map(|limit| limit.saturating_sub(passed));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(libc::EAGAIN);
            }
            if passed < POLLING {
                std::hint::spin_loop();
                continue;
            }
            let is_ready = self.arm()?;
            if self.is_woken.swap(false, Ordering::AcqRel) {
                return Err(libc::EAGAIN);
            }
            if is_ready {
                continue;
            }
            let millis = left.map_or(-1, |left| left.as_millis().clamp(1, c_int::MAX as u128) as c_int);
            let mut file = libc::pollfd { fd: self.file()?, events: libc::POLLIN, revents: 0 };
            // SAFETY: one structure is passed.
            unsafe { libc::poll(&mut file, 1, millis) };
        }
    }

    /// `FI_GETWAIT` and `FI_GETWAITOBJ`.
    pub(crate) unsafe fn control(&self, command: c_int, argument: *mut c_void) -> c_int {
        let value = match command {
            FI_GETWAIT => match self.file() {
                Ok(file) => file,
                Err(error) => return -error,
            },
            FI_GETWAITOBJ => FI_WAIT_FD,
            _ => return -libc::ENOSYS,
        };
        // SAFETY: the program passes the place for an int.
        unsafe { *argument.cast::<c_int>() = value };
        0
    }
}

/// Whether programs may wait on objects of this kind.
pub(crate) fn may_wait(kind: c_int) -> bool {
    [FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD].contains(&kind)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(watched: &Watched) -> bool {
        let fd = watched.file().expect("a file");
        let mut file = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure is passed.
        unsafe { libc::poll(&mut file, 1, 0) == 1 }
    }

    #[test]
    fn armed_file_is_quiet_until_something_comes() {
        let watched = Watched::default();
        assert_eq!(watched.arm(), Ok(false));
        watched.rouse();
        assert!(is_readable(&watched));
        assert_eq!(watched.arm(), Ok(false));
        assert!(!is_readable(&watched), "a program would never sleep again");
    }

    /// Always has something.
    #[derive(Debug, Default)]
    struct Ready(AtomicBool);

    impl Progress for Ready {
        fn progress(&self) {}

        fn arm(&self, _: &mut Files) -> Result<bool, i32> {
            self.0.store(true, Ordering::Relaxed);
            Ok(true)
        }
    }

    #[test]
    fn signal_ends_one_wait() {
        let (watched, ready) = (Watched::default(), Arc::new(Ready::default()));
        watched.add(ready.clone());
        let armed = || ready.0.load(Ordering::Relaxed).then_some(());
        watched.wake();
        assert_eq!(watched.wait(10_000, armed), Err(libc::EAGAIN));
        ready.0.store(false, Ordering::Relaxed);
        assert_eq!(watched.wait(10_000, armed), Ok(()), "the signal was for the first wait");
    }
}
