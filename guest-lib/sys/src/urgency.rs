//! Scheduling priority on machines with a single processor.

use std::io;

/// Makes this thread run whenever it does not sleep, before all less urgent threads of the machine,
/// including the kernel's. This needs privileges: root, or a limit (`RLIMIT_RTPRIO`).
///
/// # Errors
/// Those of the operating system.
pub fn run_first() -> io::Result<()> {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure is read and not kept; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &least) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
