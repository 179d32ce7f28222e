//! Completion queues (fi_cq(3)). Reading one makes progress at its endpoints.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex};

use crate::abi::*;
use crate::engine::event::Event;
use crate::object::{close, give};
use crate::watched::{Watched, lock, may_wait};

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Queue {
    entries: Mutex<VecDeque<(Event, u64)>>,
    /// Length of an entry in the program's format.
    entry: usize,
    watched: Watched,
}

#[repr(C)]
pub(crate) struct CqObject {
    fid: FidCq,
    pub(crate) queue: Arc<Queue>,
}

static FID: Ops = ops(close::<CqObject>, no_bind, control);
static OPS: OpsCq =
    OpsCq { size: size_of::<OpsCq>(), read, readfrom, readerr, sread, sreadfrom, signal, strerror };

impl Queue {
    pub(crate) fn watched(&self) -> &Watched {
        &self.watched
    }

    pub(crate) fn arm(&self) -> Result<bool, i32> {
        self.watched.progress();
        if !lock(&self.entries).is_empty() {
            return Ok(true);
        }
        let is_ready = self.watched.arm()?;
        Ok(is_ready || !lock(&self.entries).is_empty())
    }

    /// Adds an event, with the sender's address.
    pub(crate) fn push(&self, event: Event, source: u64) {
        lock(&self.entries).push_back((event, source));
    }

    /// Passes at most `count` completions to `write`. The error is `EAGAIN`, or `FI_EAVAIL` if a
    /// failure comes first.
    fn read(&self, count: usize, mut write: impl FnMut(usize, &Event, u64)) -> Result<usize, i32> {
        let mut entries = lock(&self.entries);
        for at in 0..count {
            match entries.front() {
                Some((event, source)) if event.error == 0 => {
                    write(at, event, *source);
                    entries.pop_front();
                }
                _ if at > 0 => return Ok(at),
                Some(_) => return Err(FI_EAVAIL),
                None => return Err(libc::EAGAIN),
            }
        }
        Ok(count)
    }
}

pub(crate) unsafe extern "C" fn open(
    _: *mut FidDomain,
    attr: *mut CqAttr,
    to: *mut *mut FidCq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes attributes, or null.
    let (format, kind) = unsafe { attr.as_ref().map_or((0, 0), |attr| (attr.format, attr.wait_obj)) };
    let entry = match format {
        FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_CONTEXT => 8,
        FI_CQ_FORMAT_MSG => 24,
        FI_CQ_FORMAT_DATA => 40,
        FI_CQ_FORMAT_TAGGED => 48,
        _ => return -libc::ENOSYS,
    };
    if !may_wait(kind) {
        return -libc::ENOSYS;
    }
    let fid = Fid { fclass: FI_CLASS_CQ, context, ops: &FID };
    let queue = Queue { entries: Mutex::default(), entry, watched: Watched::default() };
    give(CqObject { fid: FidCq { fid, ops: &OPS }, queue: Arc::new(queue) }, to)
}

unsafe fn of<'a>(fid: *mut FidCq) -> &'a Queue {
    // SAFETY: the program passes a completion queue of this provider.
    unsafe { &(*fid.cast::<CqObject>()).queue }
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the program passes a completion queue of this provider.
    unsafe { of(fid.cast()).watched.control(command, argument) }
}

/// Stores an entry: a beginning of the longest format.
unsafe fn store(to: *mut c_void, length: usize, event: &Event) {
    let entry = CqTaggedEntry {
        op_context: event.context as *mut c_void,
        flags: event.flags,
        len: event.length,
        buf: event.buffer as *mut c_void,
        data: event.data,
        tag: event.tag,
    };
    // SAFETY: `length` is at most the structure's, and there is room for it.
    unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&entry).cast::<u8>(), to.cast(), length) };
}

unsafe extern "C" fn read(fid: *mut FidCq, to: *mut c_void, count: usize) -> isize {
    // SAFETY: as for `readfrom`.
    unsafe { readfrom(fid, to, count, ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(fid: *mut FidCq, to: *mut c_void, count: usize, sources: *mut u64) -> isize {
    // SAFETY: the program passes a completion queue of this provider.
    let queue = unsafe { of(fid) };
    queue.watched.progress();
    // SAFETY: there is room for `count` entries and, if asked for, sources.
    let taken = queue.read(count, |at, event, source| unsafe {
        store(to.byte_add(at * queue.entry), queue.entry, event);
        if !sources.is_null() {
            *sources.add(at) = source;
        }
    });
    taken.map_or_else(|error| -(error as isize), |count| count as isize)
}

unsafe extern "C" fn sread(
    fid: *mut FidCq,
    to: *mut c_void,
    count: usize,
    condition: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: as for `sreadfrom`.
    unsafe { sreadfrom(fid, to, count, ptr::null_mut(), condition, timeout) }
}

unsafe extern "C" fn sreadfrom(
    fid: *mut FidCq,
    to: *mut c_void,
    count: usize,
    sources: *mut u64,
    _: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: as for `readfrom`.
    let look = || match unsafe { readfrom(fid, to, count, sources) } {
        none if none == -(libc::EAGAIN as isize) => None,
        found => Some(found),
    };
    // SAFETY: the program passes a completion queue of this provider.
    unsafe { of(fid) }.watched.wait(timeout, look).unwrap_or_else(|error| -(error as isize))
}

unsafe extern "C" fn readerr(fid: *mut FidCq, to: *mut CqErrEntry, _: u64) -> isize {
    // SAFETY: the program passes a completion queue of this provider.
    let mut entries = lock(&unsafe { of(fid) }.entries);
    match entries.front() {
        Some((event, _)) if event.error != 0 => {
            let error = CqErrEntry {
                op_context: event.context as *mut c_void,
                flags: event.flags,
                len: event.length,
                buf: event.buffer as *mut c_void,
                data: event.data,
                tag: event.tag,
                olen: event.missing,
                err: event.error,
                prov_errno: event.error,
                err_data: ptr::null_mut(),
                err_data_size: 0,
            };
            // SAFETY: the program passes the place for an entry, which may be longer.
            unsafe { *to = error };
            entries.pop_front();
            1
        }
        _ => -(libc::EAGAIN as isize),
    }
}

unsafe extern "C" fn signal(fid: *mut FidCq) -> c_int {
    // SAFETY: the program passes a completion queue of this provider.
    unsafe { of(fid) }.watched.wake();
    0
}

unsafe extern "C" fn strerror(
    _: *mut FidCq,
    number: c_int,
    _: *const c_void,
    to: *mut c_char,
    length: usize,
) -> *const c_char {
    let text = match number {
        FI_ETRUNC => c"the message is longer than the buffer".as_ptr(),
        FI_ENOKEY => c"the peer has no region with this key".as_ptr(),
        // SAFETY: libc returns a string for every number.
        _ => unsafe { libc::strerror(number) },
    };
    if !to.is_null() && length > 0 {
        // SAFETY: the program passes `length` bytes of room.
        unsafe {
            libc::strncpy(to, text, length - 1);
            *to.add(length - 1) = 0;
        }
    }
    text
}
