//! The functions of the C library that this library stands in for. Each is what its manual page
//! says; a descriptor that is none of ours goes to the kernel at once.

mod bytes;
mod descriptors;
mod messages;
mod start;
mod waits;

use libc::{c_int, ssize_t};

use crate::foreign::{Answer, set_errno};

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
