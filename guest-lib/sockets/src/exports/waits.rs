//! Waiting for several descriptors.

use std::ptr;
use std::time::{Duration, Instant};

use libc::{c_int, c_void, epoll_event, fd_set, nfds_t, pollfd, size_t, timespec, timeval};

use super::{next, number, uncancelled};
use crate::epoll::Epoll;
use crate::foreign::{Answer, Mask};
use crate::poll;
use crate::table::{self, Object, Open, is_used};

fn milliseconds(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// A time of the program's, if it has one.
///
/// # Safety
/// `time` is null or valid.
unsafe fn time(time: *const timespec) -> Answer<Option<Duration>> {
    if time.is_null() {
        return Ok(None);
    }
    // SAFETY: by this function's contract.
    let time = unsafe { *time };
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    match (seconds, nanoseconds) {
        (Ok(seconds), Ok(nanoseconds @ 0..1_000_000_000)) => Ok(Some(Duration::new(seconds, nanoseconds))),
        _ => Err(libc::EINVAL),
    }
}

/// Whether one of the files may be more than the kernel's.
///
/// # Safety
/// `files` points to `count` structures.
unsafe fn has_ours(files: *const pollfd, count: nfds_t) -> bool {
    // SAFETY: by this function's contract.
    (0..count as usize).any(|at| is_used(unsafe { (*files.add(at)).fd }))
}

/// `None`: the C library does.
///
/// # Safety
/// `files` points to `count` structures.
unsafe fn poll_files(
    files: *mut pollfd,
    count: nfds_t,
    timeout: Option<Duration>,
    mask: Mask,
) -> Option<Answer> {
    // SAFETY: by this function's contract.
    unsafe {
        if !has_ours(files, count) {
            return None;
        }
        let files = std::slice::from_raw_parts_mut(files, count as usize);
        uncancelled(|| poll::poll(files, timeout, mask))
    }
}

/// poll(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn poll(files: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: by the caller's contract.
    if let Some(found) = unsafe { poll_files(files, count, milliseconds(timeout), None) } {
        return number(found);
    }
    next!(poll(files, count, timeout): *mut pollfd, nfds_t, c_int => c_int)
}

/// poll(2), with the size of the array.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn __poll_chk(
    files: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    _: size_t,
) -> c_int {
    // SAFETY: by the caller's contract.
    unsafe { poll(files, count, timeout) }
}

/// ppoll(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn ppoll(
    files: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const c_void,
) -> c_int {
    // SAFETY: by the caller's contract.
    if let Ok(left) = unsafe { time(timeout) } {
        // SAFETY: as above.
        if let Some(found) = unsafe { poll_files(files, count, left, (!mask.is_null()).then_some(mask)) } {
            return number(found);
        }
    }
    next!(ppoll(files, count, timeout, mask):
        *mut pollfd, nfds_t, *const timespec, *const c_void => c_int)
}

/// ppoll(2), with the size of the array.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn __ppoll_chk(
    files: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const c_void,
    _: size_t,
) -> c_int {
    // SAFETY: by the caller's contract.
    unsafe { ppoll(files, count, timeout, mask) }
}

/// The sets of select(2): for reading, writing and exceptions.
const KINDS: [i16; 3] = [
    libc::POLLIN | libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP,
    libc::POLLOUT | libc::POLLERR,
    libc::POLLPRI,
];

/// # Safety
/// The sets are null, or have at least `count` bits.
unsafe fn select_files(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: Option<Duration>,
    mask: Mask,
) -> Option<Answer> {
    let asked = |kind: usize, fd: c_int| {
        // SAFETY: by this function's contract.
        !sets[kind].is_null() && unsafe { libc::FD_ISSET(fd, sets[kind]) }
    };
    let count = count.clamp(0, libc::FD_SETSIZE as c_int);
    if !(0..count).any(is_used) {
        return None;
    }
    let mut files: Vec<pollfd> = Vec::new();
    for fd in 0..count {
        let events = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
        let events = (0..3).filter(|kind| asked(*kind, fd)).fold(0, |all, kind| all | events[kind]);
        if events != 0 {
            files.push(pollfd { fd, events, revents: 0 });
        }
    }
    let found = match poll::poll(&mut files, timeout, mask)? {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    if found > 0 && files.iter().any(|file| file.revents & libc::POLLNVAL != 0) {
        return Some(Err(libc::EBADF));
    }
    let mut bits = 0;
    for file in &files {
        for (kind, set) in sets.iter().enumerate().filter(|(kind, _)| asked(*kind, file.fd)) {
            if file.revents & KINDS[kind] != 0 {
                bits += 1;
            } else {
                // SAFETY: as above.
                unsafe { libc::FD_CLR(file.fd, *set) };
            }
        }
    }
    Some(Ok(bits))
}

/// select(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let begun = Instant::now();
    let left = if timeout.is_null() {
        None
    } else {
        // SAFETY: by the caller's contract.
        let time = unsafe { *timeout };
        match (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec)) {
            (Ok(seconds), Ok(microseconds)) => {
                Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(microseconds)))
            }
            _ => return number(Err(libc::EINVAL)),
        }
    };
    // SAFETY: as above.
    match uncancelled(|| unsafe { select_files(count, [read, write, except], left, None) }) {
        Some(found) => {
            if let Some(left) = left {
                let left = left.saturating_sub(begun.elapsed());
                // SAFETY: as above. The kernel leaves the time that is left, too.
                unsafe {
                    (*timeout).tv_sec = left.as_secs() as i64;
                    (*timeout).tv_usec = left.subsec_micros().into();
                }
            }
            number(found)
        }
        None => next!(select(count, read, write, except, timeout):
            c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval => c_int),
    }
}

/// pselect(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const c_void,
) -> c_int {
    // SAFETY: by the caller's contract.
    if let Ok(left) = unsafe { time(timeout) } {
        let mask = (!mask.is_null()).then_some(mask);
        // SAFETY: as above.
        let ours = uncancelled(|| unsafe { select_files(count, [read, write, except], left, mask) });
        if let Some(found) = ours {
            return number(found);
        }
    }
    next!(pselect(count, read, write, except, timeout, mask):
        c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const c_void => c_int)
}

/// The program's set, as this library knows it from its first descriptor on.
fn set(fd: c_int) -> Option<Open> {
    if let Some(open) = table::get(fd) {
        return open.epoll().is_some().then_some(open);
    }
    table::put(fd, Some(Open::new(Object::Epoll(Epoll::new(fd)))));
    table::get(fd)
}

/// Adds, changes or removes a connection that may go over a channel, or could when it was added.
/// `None`: the kernel does.
fn control(epoll: c_int, operation: c_int, fd: c_int, wanted: Option<epoll_event>) -> Option<Answer> {
    let open = table::get(fd).filter(|open| open.socket().is_some())?;
    let none = epoll_event { events: 0, u64: 0 };
    if wanted.is_none() && operation != libc::EPOLL_CTL_DEL {
        return None;
    }
    let done = set(epoll)?.epoll()?.control(operation, fd, open.socket()?, wanted.unwrap_or(none));
    (done != Err(libc::ENOENT)).then_some(done.map(|()| 0))
}

/// epoll_ctl(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: by the caller's contract.
    let wanted = if event.is_null() { None } else { Some(unsafe { *event }) };
    if let Some(done) = uncancelled(|| control(epoll, operation, fd, wanted)) {
        return number(done);
    }
    let done = next!(epoll_ctl(epoll, operation, fd, event): c_int, c_int, c_int, *mut epoll_event => c_int);
    if done == 0 {
        uncancelled(|| {
            let wanted = wanted.unwrap_or(epoll_event { events: 0, u64: 0 });
            set(epoll).iter().filter_map(Open::epoll).for_each(|set| set.note(operation, fd, wanted));
        });
    }
    done
}

/// `None`: the C library does.
///
/// # Safety
/// `events` points to `count` structures.
unsafe fn wait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: Option<Duration>,
    mask: *const c_void,
) -> Option<Answer> {
    if count <= 0 || !is_used(epoll) {
        return None;
    }
    uncancelled(|| {
        let open = table::get(epoll)?;
        let set = open.epoll().filter(|set| set.has_members())?;
        // SAFETY: by this function's contract.
        let events = unsafe { std::slice::from_raw_parts_mut(events, count as usize) };
        Some(set.wait(events, timeout, (!mask.is_null()).then_some(mask)))
    })
}

/// epoll_wait(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: by the caller's contract.
    if let Some(found) = unsafe { wait(epoll, events, count, milliseconds(timeout), ptr::null()) } {
        return number(found);
    }
    next!(epoll_wait(epoll, events, count, timeout): c_int, *mut epoll_event, c_int, c_int => c_int)
}

/// epoll_pwait(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
    mask: *const c_void,
) -> c_int {
    // SAFETY: by the caller's contract.
    if let Some(found) = unsafe { wait(epoll, events, count, milliseconds(timeout), mask) } {
        return number(found);
    }
    next!(epoll_pwait(epoll, events, count, timeout, mask):
        c_int, *mut epoll_event, c_int, c_int, *const c_void => c_int)
}

/// epoll_pwait2(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const c_void,
) -> c_int {
    // SAFETY: by the caller's contract.
    if let Ok(left) = unsafe { time(timeout) } {
        // SAFETY: as above.
        if let Some(found) = unsafe { wait(epoll, events, count, left, mask) } {
            return number(found);
        }
    }
    next!(epoll_pwait2(epoll, events, count, timeout, mask):
        c_int, *mut epoll_event, c_int, *const timespec, *const c_void => c_int)
}
