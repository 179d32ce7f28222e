//! Two buffers that are used in turn (section 5.2, double buffering): one pair in memory that
//! others store to, and one in memory whose stores go to others.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::mapping::Mapping;

/// Bytes before a half's data: its flag, in its own cache line.
pub const HEAD: usize = 64;

/// The current half of two mappings. Bounds are checked on creation, so that switching to the other
/// half is a single instruction.
#[derive(Debug)]
pub struct Halves<'a> {
    own: NonNull<u8>,
    out: NonNull<u8>,
    /// 0 or `stride`.
    at: usize,
    stride: usize,
    mappings: PhantomData<&'a Mapping>,
}

// SAFETY: it stands for shared references to atomics in two mappings.
unsafe impl Send for Halves<'_> {}
// SAFETY: as above.
unsafe impl Sync for Halves<'_> {}

impl<'a> Halves<'a> {
    /// Creates two halves of `stride` bytes, a power of two, at the start of each mapping.
    ///
    /// # Errors
    /// `EINVAL` if the stride is not a power of two, has no room for data, or does not fit twice.
    pub fn new(own: &'a Mapping, out: &'a Mapping, stride: usize) -> io::Result<Self> {
        let fits = |mapping: &Mapping| stride.checked_mul(2).is_some_and(|both| both <= mapping.length());
        if !stride.is_power_of_two() || stride <= HEAD || !fits(own) || !fits(out) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let start = |mapping: &'a Mapping| NonNull::from(mapping.words(0, stride / 2)).cast();
        Ok(Self { own: start(own), out: start(out), at: 0, stride, mappings: PhantomData })
    }

    /// Switches to the other half.
    #[inline]
    pub fn swap(&mut self) {
        self.at ^= self.stride;
    }

    /// Returns the offset of this half.
    #[must_use]
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns this half's flag in the memory that others store to.
    #[must_use]
    #[inline]
    pub fn own_flag(&self) -> &'a AtomicU32 {
        // SAFETY: `new` has checked that both halves are mapped and aligned, for as long as the
        // mapping is borrowed. Atomics may be changed by others, and any bytes are valid.
        unsafe { self.own.add(self.at).cast().as_ref() }
    }

    /// Returns this half's flag in the memory whose stores go to others.
    #[must_use]
    #[inline]
    pub fn out_flag(&self) -> &'a AtomicU32 {
        // SAFETY: as above.
        unsafe { self.out.add(self.at).cast().as_ref() }
    }

    /// Returns this half's data in the memory that others store to.
    #[must_use]
    #[inline]
    pub fn own_data(&self) -> &'a [AtomicU64] {
        self.data(self.own)
    }

    /// Returns this half's data in the memory whose stores go to others.
    #[must_use]
    #[inline]
    pub fn out_data(&self) -> &'a [AtomicU64] {
        self.data(self.out)
    }

    #[inline]
    fn data(&self, start: NonNull<u8>) -> &'a [AtomicU64] {
        let count = (self.stride - HEAD) / size_of::<u64>();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(start.add(self.at + HEAD).cast().as_ptr(), count) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn halves_are_contiguous_and_alternate() {
        let [own, out] = [(); 2].map(|()| Mapping::anonymous(4096).unwrap());
        let mut halves = Halves::new(&own, &out, 2048).unwrap();
        for (at, value) in [(0, 1), (2048, 2), (0, 3)] {
            assert_eq!(halves.at(), at);
            halves.own_flag().store(value, Ordering::Relaxed);
            halves.out_flag().store(value + 10, Ordering::Relaxed);
            halves.own_data().last().unwrap().store(u64::from(value) + 20, Ordering::Relaxed);
            halves.out_data()[0].store(u64::from(value) + 30, Ordering::Relaxed);
            assert_eq!((own.load_u32(at), out.load_u32(at)), (value, value + 10));
            assert_eq!(own.load_u64(at + 2040), u64::from(value) + 20);
            assert_eq!(out.load_u64(at + HEAD), u64::from(value) + 30);
            halves.swap();
        }
    }

    #[test]
    fn halves_that_do_not_fit_are_refused() {
        let [small, large] = [4096, 8192].map(|length| Mapping::anonymous(length).unwrap());
        assert!(Halves::new(&small, &large, 2048).is_ok());
        for stride in [0, 32, HEAD, 1000, 4096, 1 << 63] {
            assert!(Halves::new(&small, &large, stride).is_err(), "{stride}");
            assert!(Halves::new(&large, &small, stride).is_err(), "{stride}");
        }
    }
}
