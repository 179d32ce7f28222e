//! The end of the process.

use libc::c_int;

use crate::foreign::call;
use crate::start;

/// _exit(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    start::end();
    loop {
        // SAFETY: no pointer is passed.
        let _ = unsafe { call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// _exit(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn _Exit(status: c_int) -> ! {
    // SAFETY: no pointer is passed.
    unsafe { _exit(status) }
}
