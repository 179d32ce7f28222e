//! How a call ends: 0 or more, or a negative errno and a text.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use hamlyn::{EndReason, Error, PeerLoss};
use libc::{
    EAGAIN, EBADMSG, EBUSY, ECONNREFUSED, ECONNRESET, EDQUOT, EHOSTDOWN, EHOSTUNREACH, EINVAL, EIO, ENETDOWN,
    ENOTCONN, EOPNOTSUPP, EOVERFLOW, EPERM, EPROTO, ERANGE, ETIMEDOUT,
};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why a call failed.
pub(crate) struct Failure {
    errno: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// An argument that makes no sense.
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(EINVAL, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { errno: errno(&error), text: error.to_string() }
    }
}

fn errno(error: &Error) -> c_int {
    match error {
        Error::OutOfRange { .. } | Error::PastEnd { .. } => ERANGE,
        Error::WouldBlock { .. } => EAGAIN,
        Error::Quota { .. } => EDQUOT,
        Error::TimedOut { .. } => ETIMEDOUT,
        Error::Refused { .. } => EPERM,
        Error::Overrun { .. } => EOVERFLOW,
        Error::InFlight { .. } => EBUSY,
        Error::LinkDown => ENETDOWN,
        Error::Unsupported(_) => EOPNOTSUPP,
        Error::Malformed(_) => EBADMSG,
        Error::Incompatible { .. } => EPROTO,
        Error::PeerLost(PeerLoss::Host) => EHOSTDOWN,
        Error::PeerLost(PeerLoss::Link) => ENETDOWN,
        Error::PeerLost(PeerLoss::Overrun) => EOVERFLOW,
        Error::PeerLost(_) => ECONNRESET,
        Error::Ended(end) => match end.reason {
            EndReason::NoName | EndReason::BacklogFull | EndReason::Rejected => ECONNREFUSED,
            EndReason::Closed | EndReason::Died => ECONNRESET,
            EndReason::HostLost | EndReason::HostReset => EHOSTUNREACH,
            _ => ENETDOWN,
        },
        Error::NotConnected => ENOTCONN,
        Error::System { source, .. } => source.raw_os_error().unwrap_or(EIO),
        Error::Misaligned { .. }
        | Error::ForeignBuffer { .. }
        | Error::Ticket(_)
        | Error::Seed(_)
        | Error::Share(_) => EINVAL,
        _ => EIO,
    }
}

/// Makes a call: what C gets is its value, or the negative errno of its failure, whose text is kept.
pub(crate) fn call(act: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let panicked = |_| Err(Failure::new(EIO, "the library has failed: please report it"));
    let Failure { errno, text } = match catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(panicked) {
        Ok(value) => return value,
        Err(failure) => failure,
    };
    LAST.with(|last| *last.borrow_mut() = CString::new(text.replace('\0', " ")).unwrap_or_default());
    -errno
}

/// Frees what C gives back, if anything.
pub(crate) fn free<T>(object: Option<Box<T>>) {
    call(|| {
        drop(object);
        Ok(0)
    });
}

/// A pointer that may not be null.
pub(crate) fn given<T>(pointer: Option<T>, name: &str) -> Result<T, Failure> {
    pointer.ok_or_else(|| Failure::argument(format!("{name} is a null pointer")))
}

/// Stores a value where C wants it, and succeeds.
pub(crate) fn store<T>(to: &mut MaybeUninit<T>, value: T) -> Result<c_int, Failure> {
    to.write(value);
    Ok(0)
}

/// A length or number as C gets it from a call.
pub(crate) fn count(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// A time-out as `poll(2)` has it: in milliseconds, for ever if negative.
pub(crate) fn timeout(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// What is waited for by `wait`, or with a time-out of 0 looked for by `look`.
pub(crate) fn wait<T>(
    milliseconds: c_int,
    look: impl FnOnce() -> hamlyn::Result<T>,
    wait: impl FnOnce(Option<Duration>) -> hamlyn::Result<T>,
) -> hamlyn::Result<T> {
    if milliseconds == 0 { look() } else { wait(timeout(milliseconds)) }
}

/// With a time-out of 0 there was no time to run out.
pub(crate) fn at_once<T>(milliseconds: c_int, outcome: hamlyn::Result<T>) -> Result<T, Failure> {
    outcome.map_err(|error| {
        let would_block = milliseconds == 0 && error.is_timed_out();
        if would_block { Failure::new(EAGAIN, error.to_string()) } else { error.into() }
    })
}

/// Why the last call that failed in this thread did: a sentence, valid until the thread's next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn hamlyn_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn text() -> String {
        // SAFETY: the text is this thread's, and no call fails before it is copied.
        unsafe { CStr::from_ptr(hamlyn_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_failure_is_a_negative_errno_and_a_text_of_this_thread() {
        assert_eq!(call(|| Ok(7)), 7);
        assert_eq!(call(|| Err(Error::LinkDown.into())), -ENETDOWN);
        assert!(text().contains("link"));
        std::thread::spawn(|| assert_eq!(text(), "")).join().unwrap();
        assert_eq!(call(|| Err(Failure::argument("a\0b"))), -EINVAL);
        assert_eq!(text(), "a b");
    }

    #[test]
    fn no_panic_crosses() {
        assert_eq!(call(|| panic!("on purpose")), -EIO);
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        free(Some(Box::new(Bomb)));
    }
}
