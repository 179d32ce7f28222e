//! Completion queues (fi_cq(3)). Reading one makes progress at its endpoints.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::abi::*;
use crate::endpoint::Endpoint;
use crate::engine::Event;
use crate::fabric::{close, give};
use crate::link::Files;

/// How long a wait polls before it sleeps.
const POLLING: Duration = Duration::from_micros(50);

/// Endpoints whose progress a queue or counter shows, and the file on which to wait for them.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    endpoints: Mutex<Vec<Weak<Endpoint>>>,
    files: Mutex<Option<Files>>,
    is_woken: AtomicBool,
}

impl Watched {
    pub(crate) fn add(&self, endpoint: &Arc<Endpoint>) {
        let mut endpoints = lock(&self.endpoints);
        if !endpoints.iter().any(|known| known.as_ptr() == Arc::as_ptr(endpoint)) {
            endpoints.push(Arc::downgrade(endpoint));
        }
    }

    pub(crate) fn progress(&self) {
        for endpoint in lock(&self.endpoints).iter().filter_map(Weak::upgrade) {
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
        for endpoint in lock(&self.endpoints).iter().filter_map(Weak::upgrade) {
            if endpoint.arm(files)? {
                return Ok(true);
            }
        }
        Ok(self.is_woken.load(Ordering::Acquire))
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
            if self.is_woken.swap(false, Ordering::AcqRel) {
                return Err(libc::EAGAIN);
            }
            if self.arm()? {
                continue;
            }
            let millis = left.map_or(-1, |left| left.as_millis().clamp(1, c_int::MAX as u128) as c_int);
            let mut file = libc::pollfd { fd: self.file()?, events: libc::POLLIN, revents: 0 };
            // SAFETY: one structure is passed.
            unsafe { libc::poll(&mut file, 1, millis) };
            if let Some(files) = &*lock(&self.files) {
                files.quiet();
            }
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
