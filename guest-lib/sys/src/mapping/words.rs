//! Words of any width that a processor stores in one piece, in program order; and the processor's
//! locked instruction.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};

use super::{Atomics, Mapping};

/// An integer that a processor loads and stores in one piece: of 1, 2, 4 or 8 bytes.
pub trait Word: Copy + sealed::Word {}

mod sealed {
    pub trait Word {
        /// # Safety
        /// The address is mapped for loads and aligned, and every access to it is atomic.
        unsafe fn load(address: *mut u8) -> Self;

        /// # Safety
        /// The address is mapped for stores and aligned, and every access to it is atomic.
        unsafe fn store(address: *mut u8, value: Self);
    }
}

macro_rules! words {
    ($($word:ty, $atomic:ty;)*) => {
        $(
            impl Word for $word {}

            impl sealed::Word for $word {
                #[inline]
                unsafe fn load(address: *mut u8) -> Self {
                    // SAFETY: promised by the caller.
                    unsafe { <$atomic>::from_ptr(address.cast()) }.load(Ordering::Acquire)
                }

                #[inline]
                unsafe fn store(address: *mut u8, value: Self) {
                    // SAFETY: promised by the caller.
                    unsafe { <$atomic>::from_ptr(address.cast()) }.store(value, Ordering::Release);
                }
            }
        )*
    };
}

words! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// Loads a word. Later loads see what its writer, another process or a device, stored before it.
/// Where a plain load suffices, it is a plain load, so that a comparison with a number is a single
/// instruction: compilers use two for an atomic load.
#[must_use]
#[inline(always)]
pub fn look(word: &AtomicU32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: a reference points to memory that can be loaded; all other stores there are in
        // one piece.
        let value = unsafe { word.as_ptr().read_volatile() };
        compiler_fence(Ordering::Acquire);
        value
    }
    #[cfg(not(target_arch = "x86_64"))]
    word.load(Ordering::Acquire)
}

impl Mapping {
    /// Loads the word at `offset`. Later loads see what its writer stored before it.
    #[must_use]
    #[inline]
    pub fn load_word<W: Word>(&self, offset: usize) -> W {
        let address = self.check_aligned(offset, size_of::<W>(), false);
        // SAFETY: inside the mapping, aligned, and every access to it is atomic.
        unsafe { sealed::Word::load(address) }
    }

    /// Stores a word at `offset`, after every earlier store.
    #[inline]
    pub fn store_word<W: Word>(&self, offset: usize, value: W) {
        let address = self.check_aligned(offset, size_of::<W>(), true);
        // SAFETY: inside the mapping, aligned, and every access to it is atomic.
        unsafe { sealed::Word::store(address, value) };
    }

    /// Returns `count` words of 4 bytes in place, starting at `offset`.
    #[must_use]
    pub fn words(&self, offset: usize, count: usize) -> &[AtomicU32] {
        self.in_place(offset, count)
    }

    /// Returns `count` words of 8 bytes in place, starting at `offset`.
    #[must_use]
    pub fn long_words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        self.in_place(offset, count)
    }

    fn in_place<T: Atomics>(&self, offset: usize, count: usize) -> &[T] {
        let length = count.saturating_mul(size_of::<T>());
        // Both loads and stores must be allowed.
        self.check(offset, length, true);
        let start = self.check(offset, length, false);
        assert!(start as usize % size_of::<T>() == 0, "words at {offset} are misaligned");
        // SAFETY: inside the mapping, which `&self` keeps alive, and aligned. Atomics may be
        // changed by others, and any bytes are valid.
        unsafe { std::slice::from_raw_parts(start.cast(), count) }
    }

    /// Compares the u32 at `offset` with `current` and stores `new` if they are equal, in one
    /// locked instruction. Where the bus has no locks, as for a device, this is a load and a store.
    /// If the word differs, the store writes back the loaded value.
    ///
    /// # Errors
    /// The word found, if it differs from `current`.
    #[inline]
    pub fn compare_exchange_u32(&self, offset: usize, current: u32, new: u32) -> Result<u32, u32> {
        let _ = self.check_aligned(offset, 4, false);
        self.u32_at(offset, true).compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_each_width_are_stored_in_place() {
        let mapping = Mapping::anonymous(4096).unwrap();
        mapping.store_word(0, 0x1122_3344_5566_7788_u64);
        mapping.store_word(3, 0xaa_u8);
        mapping.store_word(6, 0xbbcc_u16);
        mapping.store_word(8, 0xdead_beef_u32);
        assert_eq!(mapping.load_word::<u64>(0), 0xbbcc_3344_aa66_7788);
        assert_eq!((mapping.load_word::<u8>(8), mapping.load_word::<u16>(10)), (0xef, 0xdead));
        assert_eq!(mapping.load_word::<u32>(4092), 0);
    }

    #[test]
    fn words_in_place_are_those_of_the_mapping() {
        let mapping = Mapping::anonymous(4096).unwrap();
        mapping.store_word(4092, 7_u32);
        assert_eq!(look(&mapping.words(4, 1023)[1022]), 7);
        assert_eq!(mapping.long_words(4088, 1)[0].load(Ordering::Relaxed), 7 << 32);
    }

    #[test]
    #[should_panic(expected = "outside a mapping of 4096 bytes")]
    fn words_in_place_end_where_the_mapping_does() {
        let _ = Mapping::anonymous(4096).unwrap().words(4, 1024);
    }

    #[test]
    #[should_panic(expected = "misaligned")]
    fn words_in_place_are_aligned() {
        let _ = Mapping::anonymous(4096).unwrap().long_words(4, 1);
    }

    #[test]
    fn exchange_requires_the_expected_word() {
        let mapping = Mapping::anonymous(4096).unwrap();
        assert_eq!(mapping.compare_exchange_u32(8, 0, 7), Ok(0));
        assert_eq!(mapping.compare_exchange_u32(8, 0, 9), Err(7));
        assert_eq!(mapping.load_u32(8), 7);
    }

    #[test]
    #[should_panic(expected = "misaligned")]
    fn misaligned_word_panics() {
        Mapping::anonymous(4096).unwrap().store_word(6, 1_u32);
    }

    #[test]
    #[should_panic(expected = "outside a mapping of 4096 bytes")]
    fn a_word_outside_is_stopped() {
        let _ = Mapping::anonymous(4096).unwrap().load_word::<u64>(4096);
    }
}
