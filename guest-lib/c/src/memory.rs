//! Bytes and texts that C points to: this crate's unsafe code.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;

use hamlyn::attach::Mapping;

use crate::call::{Failure, given};

/// Bytes that C points to; a null pointer is good for none.
///
/// The caller in C promises that there are so many, and that nobody changes them during the call.
pub(crate) fn bytes<'a>(data: *const c_void, length: usize, name: &str) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    check(data, length, name)?;
    // SAFETY: not null, of an allowed length, and C promises the rest.
    Ok(unsafe { slice::from_raw_parts(data.cast(), length) })
}

/// Bytes that C wants filled; the same holds.
pub(crate) fn bytes_mut<'a>(data: *mut c_void, length: usize, name: &str) -> Result<&'a mut [u8], Failure> {
    if length == 0 {
        return Ok(&mut []);
    }
    check(data, length, name)?;
    // They may never have been written, and a slice must have been.
    // SAFETY: not null, of an allowed length; C promises that there are so many, and its own.
    unsafe { data.cast::<u8>().write_bytes(0, length) };
    // SAFETY: as above.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), length) })
}

/// So many things of a kind, one behind the other; a null pointer is good for none. The caller in C promises that they are there.
pub(crate) fn items<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check(first.cast(), count.saturating_mul(size_of::<T>()), name)?;
    // SAFETY: not null, of an allowed length, and C promises the rest.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Room for so many; the same holds, but they need not have been written.
pub(crate) fn items_mut<'a, T>(
    first: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(first.cast(), count.saturating_mul(size_of::<T>()), name)?;
    // SAFETY: not null, of an allowed length; C promises that there is room, and its own.
    Ok(unsafe { slice::from_raw_parts_mut(first.cast(), count) })
}

/// Memory that C lends until what is made of it is destroyed; none for a null pointer.
///
/// The caller in C promises what hamlyn_area_create says: that it stays, and who writes to it.
pub(crate) fn lent(memory: *mut c_void, length: usize) -> Result<Option<Mapping>, Failure> {
    let Some(start) = NonNull::new(memory.cast()) else { return Ok(None) };
    check(memory, length, "memory")?;
    // SAFETY: not null, of an allowed length, and C promises the rest.
    Ok(Some(unsafe { Mapping::promised(start, length) }))
}

/// A text that C points to and ends with a zero.
pub(crate) fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    let text = given(std::ptr::NonNull::new(text.cast_mut()), name)?;
    // SAFETY: not null, and C promises a zero behind it, and that nobody changes it during the call.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_str().map_err(|_| Failure::argument(format!("{name} is not UTF-8")))
}

fn check(data: *const c_void, length: usize, name: &str) -> Result<(), Failure> {
    if data.is_null() {
        return Err(Failure::argument(format!("{name} is a null pointer")));
    }
    let limit = isize::MAX as usize;
    if length > limit {
        return Err(Failure::argument(format!("{name} length {length} is out of range (limit {limit})")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use super::*;

    #[test]
    fn what_is_null_or_too_long_is_refused() {
        assert!(bytes(null(), 0, "data").is_ok_and(<[u8]>::is_empty));
        assert!(bytes(null(), 1, "data").is_err());
        assert!(bytes(b"x".as_ptr().cast(), usize::MAX, "data").is_err());
        assert!(bytes_mut(null_mut(), 1, "data").is_err());
        assert!(text(null(), "name").is_err());
        assert!(text(c"caf\xe9".as_ptr(), "name").is_err());
        assert!(text(c"name".as_ptr(), "name").is_ok_and(|text| text == "name"));
    }
}
