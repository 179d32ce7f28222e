//! Counters (fi_cntr(3)).

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::*;
use crate::object::{close, give};
use crate::watched::{Watched, may_wait};

/// A counter of operations, and of failures.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    value: AtomicU64,
    errors: AtomicU64,
    watched: Watched,
}

#[repr(C)]
pub(crate) struct CntrObject {
    fid: FidCntr,
    pub(crate) counter: Arc<Counter>,
}

static FID: Ops = ops(close::<CntrObject>, no_bind, control);
static OPS: OpsCntr = OpsCntr { size: size_of::<OpsCntr>(), read, readerr, add, set, wait, adderr, seterr };

impl Counter {
    pub(crate) fn watched(&self) -> &Watched {
        &self.watched
    }

    pub(crate) fn count(&self, is_error: bool) {
        let counter = if is_error { &self.errors } else { &self.value };
        counter.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn arm(&self) -> Result<bool, i32> {
        let before = (self.value.load(Ordering::Acquire), self.errors.load(Ordering::Acquire));
        self.watched.progress();
        let is_ready = self.watched.arm()?;
        Ok(is_ready || before != (self.value.load(Ordering::Acquire), self.errors.load(Ordering::Acquire)))
    }
}

pub(crate) unsafe extern "C" fn open(
    _: *mut FidDomain,
    attr: *mut CntrAttr,
    to: *mut *mut FidCntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes attributes, or null.
    let (events, kind) = unsafe { attr.as_ref().map_or((0, 0), |attr| (attr.events, attr.wait_obj)) };
    // Only operations are counted, not bytes.
    if events != 0 || !may_wait(kind) {
        return -libc::ENOSYS;
    }
    let fid = Fid { fclass: FI_CLASS_CNTR, context, ops: &FID };
    give(CntrObject { fid: FidCntr { fid, ops: &OPS }, counter: Arc::default() }, to)
}

unsafe fn of<'a>(fid: *mut FidCntr) -> &'a Counter {
    // SAFETY: the program passes a counter of this provider.
    unsafe { &(*fid.cast::<CntrObject>()).counter }
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the program passes a counter of this provider.
    unsafe { of(fid.cast()).watched.control(command, argument) }
}

unsafe extern "C" fn read(fid: *mut FidCntr) -> u64 {
    // SAFETY: the program passes a counter of this provider.
    let counter = unsafe { of(fid) };
    counter.watched.progress();
    counter.value.load(Ordering::Acquire)
}

unsafe extern "C" fn readerr(fid: *mut FidCntr) -> u64 {
    // SAFETY: the program passes a counter of this provider.
    let counter = unsafe { of(fid) };
    counter.watched.progress();
    counter.errors.load(Ordering::Acquire)
}

/// Changes a counter, and ends waits for it.
unsafe fn change(fid: *mut FidCntr, change: impl FnOnce(&Counter)) -> c_int {
    // SAFETY: the program passes a counter of this provider.
    let counter = unsafe { of(fid) };
    change(counter);
    counter.watched.wake();
    0
}

unsafe extern "C" fn add(fid: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: as for `change`.
    unsafe { change(fid, |counter| _ = counter.value.fetch_add(value, Ordering::AcqRel)) }
}

unsafe extern "C" fn set(fid: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: as for `change`.
    unsafe { change(fid, |counter| counter.value.store(value, Ordering::Release)) }
}

unsafe extern "C" fn adderr(fid: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: as for `change`.
    unsafe { change(fid, |counter| _ = counter.errors.fetch_add(value, Ordering::AcqRel)) }
}

unsafe extern "C" fn seterr(fid: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: as for `change`.
    unsafe { change(fid, |counter| counter.errors.store(value, Ordering::Release)) }
}

/// Waits for the value. A failure ends the wait.
unsafe extern "C" fn wait(fid: *mut FidCntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: the program passes a counter of this provider.
    let counter = unsafe { of(fid) };
    let errors = counter.errors.load(Ordering::Acquire);
    let limit = u64::try_from(timeout).ok().map(std::time::Duration::from_millis);
    let begun = std::time::Instant::now();
    loop {
        let left = limit.map_or(-1, |limit| {
            limit.saturating_sub(begun.elapsed()).as_millis().min(c_int::MAX as u128) as c_int
        });
        let waited = counter.watched.wait(left, || {
            if counter.errors.load(Ordering::Acquire) != errors {
                return Some(-FI_EAVAIL);
            }
            (counter.value.load(Ordering::Acquire) >= threshold).then_some(0)
        });
        match waited {
            Ok(result) => return result,
            Err(libc::EAGAIN) if limit.is_some_and(|limit| begun.elapsed() >= limit) => {
                return -libc::ETIMEDOUT;
            }
            // Woken by a change of the value.
            Err(libc::EAGAIN) => {}
            Err(error) => return -error,
        }
    }
}
