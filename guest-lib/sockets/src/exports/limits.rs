//! The limit on descriptors: a program that sets it knows nothing of those of this library.

use libc::{c_int, pid_t, rlimit, rlimit64};

use super::next;
use crate::foreign::ROOM;

/// Returns a limit with room for this library's descriptors, if it is one on the program's.
fn with_room(resource: c_int, limit: rlimit64) -> Option<rlimit64> {
    let is_too_low = resource == libc::RLIMIT_NOFILE as c_int && limit.rlim_cur < ROOM;
    is_too_low.then(|| rlimit64 { rlim_cur: ROOM, rlim_max: limit.rlim_max.max(ROOM) })
}

/// setrlimit(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn setrlimit(resource: c_int, limit: *const rlimit) -> c_int {
    // SAFETY: both structures have two numbers of 64 bits.
    unsafe { setrlimit64(resource, limit.cast()) }
}

/// setrlimit(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn setrlimit64(resource: c_int, limit: *const rlimit64) -> c_int {
    // SAFETY: by the caller's contract.
    let more = if limit.is_null() { None } else { with_room(resource, unsafe { *limit }) };
    if let Some(more) = more {
        if next!(setrlimit64(resource, &raw const more): c_int, *const rlimit64 => c_int) == 0 {
            return 0;
        }
    }
    // More than the program may have.
    next!(setrlimit64(resource, limit): c_int, *const rlimit64 => c_int)
}

/// prlimit(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn prlimit(
    process: pid_t,
    resource: c_int,
    limit: *const rlimit,
    before: *mut rlimit,
) -> c_int {
    // SAFETY: both structures have two numbers of 64 bits.
    unsafe { prlimit64(process, resource, limit.cast(), before.cast()) }
}

/// prlimit(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn prlimit64(
    process: pid_t,
    resource: c_int,
    limit: *const rlimit64,
    before: *mut rlimit64,
) -> c_int {
    let is_own = process == 0 || process as u32 == std::process::id();
    // SAFETY: by the caller's contract.
    let more = if limit.is_null() || !is_own { None } else { with_room(resource, unsafe { *limit }) };
    if let Some(more) = more {
        let done = next!(prlimit64(process, resource, &raw const more, before):
            pid_t, c_int, *const rlimit64, *mut rlimit64 => c_int);
        if done == 0 {
            return 0;
        }
    }
    next!(prlimit64(process, resource, limit, before):
        pid_t, c_int, *const rlimit64, *mut rlimit64 => c_int)
}
