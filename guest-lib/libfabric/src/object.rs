//! Objects of the interface, from their opening to their closing.

use std::ffi::c_int;

use crate::abi::Fid;

/// Gives an object to the program, which closes it.
pub(crate) fn give<T, F>(object: T, to: *mut *mut F) -> c_int {
    // SAFETY: the program passes the place for the object. Objects begin with what it sees of them.
    unsafe { *to = Box::into_raw(Box::new(object)).cast() };
    0
}

/// Closes an object that only has to be freed.
pub(crate) unsafe extern "C" fn close<T>(fid: *mut Fid) -> c_int {
    // SAFETY: the program closes what `give` has given to it, once.
    drop(unsafe { Box::from_raw(fid.cast::<T>()) });
    0
}
