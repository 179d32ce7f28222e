//! Results of calls: 0 or more, or a negative errno and a message.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use hamlyn::clan::{DmaError, Fault};
use hamlyn::shrimp::MappingError;
use hamlyn::{EndReason, Error, ErrorKind, GivenBack, PeerLoss, Terminus};
use libc::{
    EACCES, EAGAIN, EBADMSG, EBUSY, ECANCELED, ECONNABORTED, ECONNREFUSED, ECONNRESET, EDOM, EDQUOT,
    EHOSTDOWN, EHOSTUNREACH, EINVAL, EIO, ENETDOWN, ENETRESET, ENODATA, ENOMEM, ENOSPC, ENOTCONN, EOPNOTSUPP,
    EOVERFLOW, EPERM, EPIPE, EPROTO, ERANGE, ETIMEDOUT,
};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why a call failed.
pub struct Failure {
    errno: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// An invalid width of a store or load.
    pub(crate) fn width(width: u32) -> Self {
        Self::argument(format!("width {width} of a store or load is none of 1, 2, 4 and 8"))
    }

    /// Nothing is available now.
    pub(crate) fn nothing_yet(what: &str) -> Self {
        Self::new(EAGAIN, format!("there is no {what} yet"))
    }

    /// An invalid argument.
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(EINVAL, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { errno: errno(&error), text: error.to_string() }
    }
}

impl<T: std::fmt::Debug> From<GivenBack<T>> for Failure {
    fn from(failed: GivenBack<T>) -> Self {
        failed.error.into()
    }
}

fn errno(error: &Error) -> c_int {
    if let Error::System { source, .. } = error {
        return source.raw_os_error().unwrap_or(EIO);
    }
    if let Some(why) = error.of() {
        return errno_of_mapping(why);
    }
    match error.kind() {
        ErrorKind::WouldBlock => EAGAIN,
        ErrorKind::TimedOut => ETIMEDOUT,
        ErrorKind::Woken => ECANCELED,
        ErrorKind::Exhausted if matches!(error, Error::Quota { .. }) => EDQUOT,
        ErrorKind::Exhausted if matches!(error, Error::Locked { .. }) => ENOMEM,
        ErrorKind::Exhausted => ENOSPC,
        ErrorKind::Invalid => EINVAL,
        ErrorKind::Closed => EPIPE,
        ErrorKind::PeerLost => errno_of_loss(error),
        ErrorKind::Unsupported if matches!(error, Error::Incompatible { .. } | Error::OtherModel { .. }) => {
            EPROTO
        }
        ErrorKind::Unsupported => EOPNOTSUPP,
        ErrorKind::Refused => EPERM,
        ErrorKind::Overrun => EOVERFLOW,
        ErrorKind::InFlight => EBUSY,
        ErrorKind::LinkDown => ENETDOWN,
        ErrorKind::Malformed => EBADMSG,
        ErrorKind::Incomplete => ENODATA,
        _ => EIO,
    }
}

/// Returns the errno for the loss of the peer.
fn errno_of_loss(error: &Error) -> c_int {
    match error {
        Error::PeerLost(PeerLoss::Host) => EHOSTDOWN,
        Error::PeerLost(PeerLoss::HostReset) => ENETRESET,
        Error::PeerLost(PeerLoss::Link) => ENETDOWN,
        Error::PeerLost(PeerLoss::CardReset) => ECONNABORTED,
        Error::PeerLost(PeerLoss::Overrun) => EOVERFLOW,
        Error::PeerLost(_) => ECONNRESET,
        Error::Model(_) if is_unanswered(error) => EHOSTDOWN,
        Error::Model(_) => ECONNRESET,
        Error::Ended(end) => match end.reason {
            EndReason::NoName | EndReason::BacklogFull | EndReason::Rejected => ECONNREFUSED,
            EndReason::Closed | EndReason::Died => ECONNRESET,
            EndReason::HostLost => EHOSTUNREACH,
            EndReason::HostReset => ENETRESET,
            EndReason::CardReset => ECONNABORTED,
            _ => ENETDOWN,
        },
        _ => ENOTCONN,
    }
}

/// Returns whether this is an access or a transfer of a CLAN card that the other host did not
/// answer.
fn is_unanswered(error: &Error) -> bool {
    error.of::<Fault>().is_some() || error.of::<DmaError>().is_some()
}

/// Returns the errno for a send buffer with no destination. It is the errno with which the driver
/// refuses to create such a buffer.
fn errno_of_mapping(why: &MappingError) -> c_int {
    match why {
        MappingError::Access { .. } => EACCES,
        MappingError::Range { .. } => ERANGE,
        MappingError::Place { .. } => EDOM,
        MappingError::OtherPlace { .. } => EINVAL,
        MappingError::Occupied => EBUSY,
        MappingError::NoHost { .. } => EHOSTUNREACH,
        MappingError::NoAnswer { .. } => ETIMEDOUT,
        MappingError::TakenBack { .. } => ECONNRESET,
        MappingError::Lost { .. } => EHOSTDOWN,
        _ => EIO,
    }
}

/// Runs a call. Returns its value to C, or the negative errno of its failure. The failure's message
/// is kept for uln_error.
pub(crate) fn call(act: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let panicked = |_| Err(Failure::new(EIO, "the library has failed: please report it"));
    let Failure { errno, text } = match catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(panicked) {
        Ok(value) => return value,
        Err(failure) => failure,
    };
    LAST.with(|last| *last.borrow_mut() = CString::new(text.replace('\0', " ")).unwrap_or_default());
    -errno
}

/// Frees an object that C gives back, if any.
pub(crate) fn free<T>(object: Option<Box<T>>) {
    call(|| {
        drop(object);
        Ok(0)
    });
}

/// Rejects a null pointer.
pub(crate) fn given<T>(pointer: Option<T>, name: &str) -> Result<T, Failure> {
    pointer.ok_or_else(|| Failure::argument(format!("{name} is a null pointer")))
}

/// Checks the reserved fields of a structure. A program that sets one wants a feature that this
/// library does not have.
pub(crate) fn unused(reserved: &[u32]) -> Result<(), Failure> {
    match reserved.iter().find(|word| **word != 0) {
        Some(word) => Err(Failure::argument(format!("reserved field {word} is out of range (limit 0)"))),
        None => Ok(()),
    }
}

/// Converts a timeout as in `poll(2)`: in milliseconds, forever if negative.
pub(crate) fn timeout(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// Calls a function that blocks, without a limit or with one, `object => verb / verb_timeout
/// (arguments)`. A timeout of 0 that expires is `EAGAIN`. Of three functions, the first is for a
/// timeout of 0, `object => try_verb / verb / verb_timeout(arguments)`.
macro_rules! waited {
    ($timeout_ms:expr, $object:expr => $try:ident / $verb:ident / $verb_timeout:ident($($argument:expr),*)) => {
        match $crate::call::waits($timeout_ms) {
            None => $object.$try($($argument),*),
            Some(None) => $object.$verb($($argument),*),
            Some(Some(limit)) => $object.$verb_timeout($($argument,)* limit),
        }
    };
    ($timeout_ms:expr, $object:expr => $verb:ident / $verb_timeout:ident($($argument:expr),*)) => {
        $crate::call::at_once(
            $timeout_ms,
            match $crate::call::timeout($timeout_ms) {
                None => $object.$verb($($argument),*),
                Some(limit) => $object.$verb_timeout($($argument,)* limit),
            },
        )
    };
}
pub(crate) use waited;

/// Returns how long a call waits: not at all with a timeout of 0.
pub(crate) fn waits(milliseconds: c_int) -> Option<Option<Duration>> {
    (milliseconds != 0).then(|| timeout(milliseconds))
}

/// Repeats an attempt until it finds room or the timeout expires. With a timeout of 0 it makes a
/// single attempt. Between attempts it sleeps until the card has finished with requests of this
/// terminus, which makes room.
pub(crate) fn retry<T>(
    terminus: &Terminus,
    milliseconds: c_int,
    mut attempt: impl FnMut() -> hamlyn::Result<T>,
) -> hamlyn::Result<T> {
    let (start, limit) = (Instant::now(), timeout(milliseconds));
    loop {
        match attempt() {
            Err(error) if is_for_later(&error) && milliseconds != 0 => {}
            Err(error) if error.kind() == ErrorKind::InFlight => {
                return Err(Error::WouldBlock { object: "bytes of the send buffer", limit: 0 });
            }
            outcome => return outcome,
        }
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::TimedOut { what: "room to send", after: limit.unwrap_or_default() });
        }
        match left.map_or_else(|| terminus.wait_progress(), |left| terminus.wait_progress_timeout(left)) {
            Err(error) if !error.is_timed_out() => return Err(error),
            _ => {}
        }
    }
}

fn is_for_later(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::InFlight)
}

/// Turns an expired timeout into `EAGAIN` if the timeout was 0.
pub(crate) fn at_once<T>(milliseconds: c_int, outcome: hamlyn::Result<T>) -> Result<T, Failure> {
    outcome.map_err(|error| {
        let would_block = milliseconds == 0 && error.is_timed_out();
        if would_block { Failure::new(EAGAIN, error.to_string()) } else { error.into() }
    })
}

/// Version of the library that this header describes: major << 16 | minor << 8 | patch.
pub const ULN_VERSION: u32 = 0x0000_0900;

/// Returns the version of the library that the program runs with, encoded as ULN_VERSION. A library
/// is compatible if it has the major number that the program was compiled with. While the major
/// number is 0, the minor number must match too.
#[unsafe(no_mangle)]
pub extern "C" fn uln_version() -> u32 {
    ULN_VERSION
}

/// Returns the reason for the last failed call in this thread: a sentence, valid until the thread's
/// next failed call.
#[unsafe(no_mangle)]
pub extern "C" fn uln_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use hamlyn::clan::DmaError;
    use hamlyn::dart::{Broken, Trap};

    use super::*;

    fn text() -> String {
        // SAFETY: the text belongs to this thread, and no call fails before it is copied.
        unsafe { CStr::from_ptr(uln_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn failure_gives_errno_and_thread_local_text() {
        assert_eq!(call(|| Ok(7)), 7);
        assert_eq!(call(|| Err(Error::LinkDown.into())), -ENETDOWN);
        assert!(text().contains("link"));
        std::thread::spawn(|| assert_eq!(text(), "")).join().unwrap();
        let exhausted = || Error::Exhausted { object: "slots", limit: 4, remedy: "close some" };
        assert_eq!(call(|| Err(exhausted().into())), -ENOSPC);
        let locked = || Error::Locked { action: "create a slot".into(), bytes: 5, limit: 4 };
        assert_eq!(call(|| Err(locked().into())), -ENOMEM);
        assert_eq!(call(|| Err(Error::Closed("the stream").into())), -EPIPE);
        let incomplete = || Error::Incomplete { what: "datagram", after: Duration::from_secs(10) };
        assert_eq!(call(|| Err(incomplete().into())), -ENODATA);
        assert_eq!(call(|| Err(Error::Unsupported("no").into())), -EOPNOTSUPP);
        assert_eq!(call(|| Err(Error::Invalid("no").into())), -EINVAL);
        assert_eq!(call(|| Err(Error::NotConnected.into())), -ENOTCONN);
        assert_eq!(call(|| Err(Error::from(DmaError::Timeout).into())), -EHOSTDOWN);
        assert_eq!(call(|| Err(Error::from(DmaError::Refused).into())), -EPERM);
        assert_eq!(call(|| Err(Error::from(Broken::Gone).into())), -ECONNRESET);
        assert_eq!(call(|| Err(Error::from(Broken::Link).into())), -ENETDOWN);
        assert_eq!(call(|| Err(Error::from(Trap::Refused).into())), -EPERM);
        for (why, errno) in [
            (MappingError::Access { node: 1, export: 2 }, EACCES),
            (MappingError::Range { node: 1, export: 2, end: 3 }, ERANGE),
            (MappingError::Place { node: 1, export: 2 }, EDOM),
            (MappingError::Occupied, EBUSY),
            (MappingError::NoHost { node: 1 }, EHOSTUNREACH),
            (MappingError::NoAnswer { node: 1 }, ETIMEDOUT),
            (MappingError::TakenBack { node: 1, export: 2 }, ECONNRESET),
            (MappingError::Lost { node: 1 }, EHOSTDOWN),
        ] {
            assert_eq!(call(|| Err(Error::from(why).into())), -errno, "{why}");
        }
        assert_eq!(call(|| Err(Failure::argument("a\0b"))), -EINVAL);
        assert_eq!(text(), "a b");
    }

    #[test]
    fn losses_of_the_peer_have_different_numbers() {
        let ended = |reason| Error::Ended(hamlyn::End { reason, private: Vec::new() });
        for (error, errno) in [
            (Error::PeerLost(PeerLoss::Process), ECONNRESET),
            (Error::PeerLost(PeerLoss::Host), EHOSTDOWN),
            (Error::PeerLost(PeerLoss::HostReset), ENETRESET),
            (Error::PeerLost(PeerLoss::Link), ENETDOWN),
            (Error::PeerLost(PeerLoss::CardReset), ECONNABORTED),
            (ended(EndReason::HostLost), EHOSTUNREACH),
            (ended(EndReason::HostReset), ENETRESET),
            (ended(EndReason::LinkLost), ENETDOWN),
            (ended(EndReason::CardReset), ECONNABORTED),
        ] {
            let text = error.to_string();
            assert_eq!(call(|| Err(error.into())), -errno, "{text}");
        }
    }

    #[test]
    fn version_matches_the_package() {
        let [major, minor, patch] = [16, 8, 0]
            .map(|shift| (uln_version() >> shift & if shift == 16 { u32::MAX } else { 0xff }).to_string());
        assert_eq!([major, minor, patch].join("."), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn no_panic_crosses_into_c() {
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
