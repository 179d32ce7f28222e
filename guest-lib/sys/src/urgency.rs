//! Who runs first where there is but one processor.

use std::io;

/// From now on this thread runs whenever it does not sleep, before all of the machine that are not
/// as urgent, the kernel's own threads among them. The operating system allows it to few: to root,
/// or by a limit (`RLIMIT_RTPRIO`).
///
/// # Errors
/// The operating system's.
pub fn run_first() -> io::Result<()> {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: it is read and not kept; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &least) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
