//! Bytes and strings that C points to: this crate's unsafe code.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;

use hamlyn::MessageArea;
use hamlyn::attach::Mapping;

use crate::call::{Failure, given};

/// Returns bytes that C points to. The pointer may be null if the length is 0.
///
/// The C caller promises that there are `length` bytes, and that no thread changes them during the
/// call.
pub(crate) fn bytes<'a>(data: *const c_void, length: usize, name: &str) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    check(data, length, name)?;
    // SAFETY: the pointer is not null, the length is allowed, and C promises the rest.
    Ok(unsafe { slice::from_raw_parts(data.cast(), length) })
}

/// Returns bytes for the library to fill. The same rules apply as for [`bytes`].
pub(crate) fn bytes_mut<'a>(data: *mut c_void, length: usize, name: &str) -> Result<&'a mut [u8], Failure> {
    if length == 0 {
        return Ok(&mut []);
    }
    check(data, length, name)?;
    // C may never have written the bytes, but a slice must be initialized.
    // SAFETY: the pointer is not null and the length is allowed. C promises that there are `length`
    // bytes, and that no other code uses them.
    unsafe { data.cast::<u8>().write_bytes(0, length) };
    // SAFETY: as above.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), length) })
}

/// Returns an array of `count` items. The pointer may be null if the count is 0. The C caller
/// promises that the items exist.
pub(crate) fn items<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check(first.cast(), count.saturating_mul(size_of::<T>()), name)?;
    // SAFETY: the pointer is not null, the length is allowed, and C promises the rest.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Returns an array of `count` items for the library to fill. The same rules apply as for
/// [`items`], but the items may be uninitialized.
pub(crate) fn items_mut<'a, T>(
    first: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(first.cast(), count.saturating_mul(size_of::<T>()), name)?;
    // SAFETY: the pointer is not null and the length is allowed. C promises that there is room, and
    // that no other code uses it.
    Ok(unsafe { slice::from_raw_parts_mut(first.cast(), count) })
}

/// Takes an array of `count` handles from C, and replaces each with a null pointer. Takes none if
/// one is null or occurs twice. The C caller promises that each is a handle from this library.
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
    // SAFETY: C promises that each is a handle from this library, and no other code has it now.
    Ok(seen.into_iter().map(|handle| unsafe { Box::from_raw(handle) }).collect())
}

/// Returns memory that C lends until the object made of it is destroyed. Returns `None` for a null
/// pointer.
///
/// The C caller makes the promises of hamlyn_area_create: how long the memory stays mapped, and who
/// may write to it.
pub(crate) fn lent(memory: *mut c_void, length: usize) -> Result<Option<Mapping>, Failure> {
    let Some(start) = NonNull::new(memory.cast()) else { return Ok(None) };
    check(memory, length, "memory")?;
    // SAFETY: the pointer is not null, the length is allowed, and C promises the rest.
    Ok(Some(unsafe { Mapping::promised(start, length) }))
}

/// Returns a zero-terminated string that C points to.
pub(crate) fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    let text = given(std::ptr::NonNull::new(text.cast_mut()), name)?;
    // SAFETY: the pointer is not null. C promises that the string is zero-terminated and that no
    // thread changes it during the call.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_str().map_err(|_| Failure::argument(format!("{name} is not UTF-8")))
}

/// The context pointer for callbacks into C. C promises that any thread may pass it back.
#[derive(Debug)]
pub(crate) struct Context(pub(crate) *mut c_void);

// SAFETY: this library only passes the pointer back, and C promises that any thread may do so.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn call(&self, function: unsafe extern "C" fn(*mut c_void) -> c_int) -> c_int {
        // SAFETY: C gave the function and the context for each other.
        unsafe { function(self.0) }
    }

    pub(crate) fn call_with<T>(
        &self,
        function: unsafe extern "C" fn(*mut c_void, *const T) -> c_int,
        argument: &T,
    ) -> c_int {
        // SAFETY: C gave the function and the context for each other, and the argument outlives the
        // call.
        unsafe { function(self.0, argument) }
    }
}

/// Returns the address of a byte of an area.
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
    fn null_or_too_long_pointers_are_refused() {
        assert!(bytes(null(), 0, "data").is_ok_and(<[u8]>::is_empty));
        assert!(bytes(null(), 1, "data").is_err());
        assert!(bytes(b"x".as_ptr().cast(), usize::MAX, "data").is_err());
        assert!(bytes_mut(null_mut(), 1, "data").is_err());
        assert!(text(null(), "name").is_err());
        assert!(text(c"caf\xe9".as_ptr(), "name").is_err());
        assert!(text(c"name".as_ptr(), "name").is_ok_and(|text| text == "name"));
    }
}
