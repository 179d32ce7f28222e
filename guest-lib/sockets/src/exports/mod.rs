//! The functions of the C library that this library stands in for. Each is what its manual page
//! says; a descriptor that is none of ours goes to the C library at once.
//!
//! A program may cancel its threads (pthreads(7)), which unwinds their stack. So no frame here has
//! a destructor while the C library's function waits, and everything else runs [`uncancelled`].

mod bytes;
mod descriptors;
mod limits;
mod messages;
mod start;
mod waits;

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_void, pollfd, ssize_t, timespec};

use crate::foreign::{self, Answer, set_errno};
use crate::socket::{Call, Sleep, Socket, Step};
use crate::table;

/// Calls the C library's function of this name.
macro_rules! next {
    ($name:ident($($argument:expr),*): $($type:ty),* => $result:ty) => {{
        type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
        static NEXT: std::sync::atomic::AtomicPtr<libc::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let name = const {
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no zero"),
            }
        };
        let next = $crate::exports::resolve(&NEXT, name);
        // SAFETY: the C library's function has this type. Its contract is that of the caller.
        unsafe { std::mem::transmute::<*mut libc::c_void, Function>(next)($($argument),*) }
    }};
}
use next;

/// Returns the function of this name that this library hides.
fn resolve(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut next = known.load(Ordering::Relaxed);
    if next.is_null() {
        // SAFETY: the name is valid.
        next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        if next.is_null() {
            eprintln!("hamlyn-run: the C library has no {}", name.to_string_lossy());
            std::process::abort();
        }
        known.store(next, Ordering::Relaxed);
    }
    next
}

/// Of pthread_setcancelstate(3).
const DISABLE: c_int = 1;

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs what the program's cancellation of this thread must not interrupt.
fn uncancelled<T: Copy>(act: impl FnOnce() -> T) -> T {
    let mut before = 0;
    // SAFETY: the variable is valid.
    unsafe { pthread_setcancelstate(DISABLE, &mut before) };
    let done = act();
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    done
}

/// Makes the steps of a connection's call, and sleeps in between, where the program may cancel the
/// thread. `None`: the descriptor is none of ours.
#[inline]
fn steps(fd: RawFd, mut step: impl FnMut(&Socket, &mut Call) -> Step) -> Option<ssize_t> {
    if !table::is_used(fd) {
        return None;
    }
    let mut call = Call::default();
    loop {
        let next = uncancelled(|| table::socket(fd).as_ref()?.socket().map(|socket| step(socket, &mut call)));
        match next {
            Some(Step::Done(answer)) => return Some(result(answer)),
            Some(Step::Sleep(mut sleep)) => {
                let is_over = sleep_at(&mut sleep) < 0
                    && foreign::errno() == libc::EINTR
                    && (sleep.left.is_some() || !uncancelled(foreign::restarts_all));
                if is_over {
                    return Some(result(if call.done > 0 { Ok(call.done) } else { Err(libc::EINTR) }));
                }
            }
            // What was done so far went by this library.
            None if call.done > 0 => return Some(call.done as ssize_t),
            None => return None,
        }
    }
}

fn sleep_at(sleep: &mut Sleep) -> c_int {
    let time = sleep.left.map(foreign::timespec);
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    let files = sleep.files.as_mut_ptr();
    next!(ppoll(files, sleep.count as libc::nfds_t, time, ptr::null()):
        *mut pollfd, libc::nfds_t, *const timespec, *const c_void => c_int)
}

/// What a function returns: -1 with `errno` for an error.
fn result(answer: Answer) -> ssize_t {
    answer.map_or_else(
        |error| {
            set_errno(error);
            -1
        },
        |value| value as ssize_t,
    )
}

fn number(answer: Answer) -> c_int {
    result(answer) as c_int
}
