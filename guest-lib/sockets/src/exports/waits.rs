//! Waiting for several descriptors.

use std::ptr;
use std::time::{Duration, Instant};

use libc::{c_int, c_void, epoll_event, fd_set, nfds_t, pollfd, size_t, timespec, timeval};

use super::number;
use crate::epoll::Epoll;
use crate::foreign::{self, Answer, Mask, call};
use crate::table::{self, Object, Open};
use crate::{foreign::process, poll};

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

/// # Safety
/// `files` points to `count` structures.
unsafe fn poll_files(files: *mut pollfd, count: nfds_t, timeout: Option<Duration>, mask: Mask) -> Answer {
    let files = if count == 0 {
        &mut [][..]
    } else {
        // SAFETY: by this function's contract.
        unsafe { std::slice::from_raw_parts_mut(files, count as usize) }
    };
    poll::poll(files, timeout, mask).unwrap_or_else(|| foreign::poll(files, timeout, mask))
}

/// poll(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn poll(files: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: by the caller's contract.
    number(unsafe { poll_files(files, count, milliseconds(timeout), None) })
}

/// poll(2), with the size of the array.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn __poll_chk(files: *mut pollfd, count: nfds_t, timeout: c_int, _: size_t) -> c_int {
    // SAFETY: by the caller's contract.
    unsafe { poll(files, count, timeout) }
}

/// ppoll(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn ppoll(
    files: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const c_void,
) -> c_int {
    // SAFETY: by the caller's contract.
    number(unsafe { time(timeout) }.and_then(|timeout| unsafe {
        poll_files(files, count, timeout, (!mask.is_null()).then_some(mask))
    }))
}

/// ppoll(2), with the size of the array.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn __ppoll_chk(
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
    let mut files: Vec<pollfd> = Vec::new();
    for fd in 0..count.clamp(0, libc::FD_SETSIZE as c_int) {
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
pub(super) unsafe extern "C" fn select(
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
    match unsafe { select_files(count, [read, write, except], left, None) } {
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
        // SAFETY: as above.
        None => number(unsafe {
            let sets = [read as usize, write as usize, except as usize];
            call(libc::SYS_select, [count as usize, sets[0], sets[1], sets[2], timeout as usize, 0])
        }),
    }
}

/// pselect(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const c_void,
) -> c_int {
    // SAFETY: by the caller's contract.
    let left = match unsafe { time(timeout) } {
        Ok(left) => left,
        Err(error) => return number(Err(error)),
    };
    // SAFETY: as above.
    let ours = unsafe {
        select_files(count, [read, write, except], left, (!mask.is_null()).then_some(mask))
    };
    number(ours.unwrap_or_else(|| {
        // The kernel's call changes the time, and takes the mask with its size.
        // SAFETY: as above.
        unsafe {
            let mut copy = if timeout.is_null() { None } else { Some(*timeout) };
            let copy = copy.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
            let mask: [usize; 2] = [mask as usize, 8];
            let sets = [read as usize, write as usize, except as usize];
            let mask = mask.as_ptr() as usize;
            call(libc::SYS_pselect6, [count as usize, sets[0], sets[1], sets[2], copy as usize, mask])
        }
    }))
}

/// The program's set, as this library knows it from its first descriptor on.
fn set(fd: c_int) -> Option<Open> {
    if let Some(open) = table::get(fd) {
        return open.epoll().is_some().then_some(open);
    }
    table::put(fd, Some(Open::new(Object::Epoll(Epoll::new(fd)))));
    table::get(fd)
}

/// epoll_ctl(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    // SAFETY: by the caller's contract.
    let wanted = if event.is_null() { epoll_event { events: 0, u64: 0 } } else { unsafe { *event } };
    if let (Some(open), false) = (table::socket(fd), event.is_null() && operation != libc::EPOLL_CTL_DEL) {
        let done = set(epoll).ok_or(libc::EINVAL);
        let done = done.and_then(|set| match set.epoll() {
            Some(epoll) => epoll.control(operation, fd, &open, wanted),
            None => Err(libc::EINVAL),
        });
        if done != Err(libc::ENOENT) {
            return number(done.map(|()| 0));
        }
    }
    // SAFETY: as above.
    let done = unsafe {
        call(libc::SYS_epoll_ctl, [epoll as usize, operation as usize, fd as usize, event as usize, 0, 0])
    };
    if done.is_ok() {
        set(epoll).iter().filter_map(Open::epoll).for_each(|set| set.note(operation, fd, wanted));
    }
    number(done)
}

/// # Safety
/// `events` points to `count` structures.
unsafe fn wait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: Option<Duration>,
    mask: Mask,
) -> Answer {
    if count <= 0 {
        return Err(libc::EINVAL);
    }
    // SAFETY: by this function's contract.
    let events = unsafe { std::slice::from_raw_parts_mut(events, count as usize) };
    match table::get(epoll) {
        Some(open) if open.epoll().is_some_and(Epoll::has_members) && process() != 0 => {
            open.epoll().map_or(Err(libc::EBADF), |epoll| epoll.wait(events, timeout, mask))
        }
        _ => foreign::epoll_wait(epoll, events, timeout, mask),
    }
}

/// epoll_wait(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: by the caller's contract.
    number(unsafe { wait(epoll, events, count, milliseconds(timeout), None) })
}

/// epoll_pwait(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
    mask: *const c_void,
) -> c_int {
    // SAFETY: by the caller's contract.
    number(unsafe {
        wait(epoll, events, count, milliseconds(timeout), (!mask.is_null()).then_some(mask))
    })
}

/// epoll_pwait2(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const c_void,
) -> c_int {
    // SAFETY: by the caller's contract.
    number(unsafe { time(timeout) }.and_then(|timeout| unsafe {
        wait(epoll, events, count, timeout, (!mask.is_null()).then_some(mask))
    }))
}
