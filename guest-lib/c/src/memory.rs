//! Bytes and texts that C points to: this crate's unsafe code.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;

use hamlyn::MessageArea;
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

/// So many things of a kind, one behind the other; a null pointer is good for none. The caller in C
/// promises that they are there.
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

/// Takes handles from C, so many behind each other, and leaves null pointers in their place; none
/// is taken if one is null, or stands there twice. The caller in C promises that each is one that
/// this library gave.
pub(crate) fn boxes<T>(first: *mut *mut T, count: usize, name: &str) -> Result<Vec<Box<T>>, Failure> {
    given(NonNull::new(first), name)?;
    let seen = items(first.cast_const(), count, name)?.to_vec();
    if seen.iter().any(|handle| handle.is_null()) {
        return Err(Failure::argument(format!("one of the {name} is a null pointer")));
    }
    if seen.iter().enumerate().any(|(at, handle)| seen[..at].contains(handle)) {
        return Err(Failure::argument(format!("one of the {name} is there twice")));
    }
    for place in items_mut(first, count, name)? {
        place.write(std::ptr::null_mut());
    }
    // SAFETY: each is a handle of this library's, as C promises, and nobody else has it now.
    Ok(seen.into_iter().map(|handle| unsafe { Box::from_raw(handle) }).collect())
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
    // SAFETY: not null, and C promises a zero behind it, and that nobody changes it during the
    // call.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_str().map_err(|_| Failure::argument(format!("{name} is not UTF-8")))
}

/// What C wants to be handed when it is called. It promises that any thread may do so.
#[derive(Debug)]
pub(crate) struct Context(pub(crate) *mut c_void);

// SAFETY: this library only hands it back, and C promises that any thread may do so.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn call(&self, function: unsafe extern "C" fn(*mut c_void) -> c_int) -> c_int {
        // SAFETY: C gave both, for each other.
        unsafe { function(self.0) }
    }

    pub(crate) fn call_with<T>(
        &self,
        function: unsafe extern "C" fn(*mut c_void, *const T) -> c_int,
        argument: &T,
    ) -> c_int {
        // SAFETY: C gave both, for each other, and the argument outlives the call.
        unsafe { function(self.0, argument) }
    }
}

/// Where a byte of an area lies.
pub(crate) fn address(area: &MessageArea, offset: usize) -> *const c_void {
    area.as_ptr().wrapping_add(offset).cast()
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
    fn handles_are_taken_all_or_none() {
        let [one, two] = [1, 2].map(|number| Box::into_raw(Box::new(number)));
        let mut handles = [one, two];
        let start = handles.as_mut_ptr();
        assert!(boxes(null_mut::<*mut i32>(), 0, "handles").is_err());
        for wrong in [null_mut(), one] {
            handles[1] = wrong;
            assert!(boxes(start, 2, "handles").is_err() && handles == [one, wrong]);
        }
        handles[1] = two;
        assert_eq!(boxes(start, 2, "handles").ok(), Some(vec![Box::new(1), Box::new(2)]));
        assert_eq!(handles, [null_mut(); 2]);
    }

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
