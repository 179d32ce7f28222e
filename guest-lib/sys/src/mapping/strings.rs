//! Copies with the processor's string instructions: a handful of instructions for any number of
//! bytes, where the cost of a message is counted in instructions (section 5.2 of the SHRIMP paper).
//!
//! They copy 8 bytes at a time in ascending order, and the rest in single bytes.

use std::sync::atomic::AtomicU8;

/// Copies bytes to the start of `to`.
///
/// # Panics
/// If `from` is longer than `to`.
#[inline]
pub fn copy_in(to: &[AtomicU8], from: &[u8]) {
    assert!(from.len() <= to.len(), "{} bytes do not fit in {}", from.len(), to.len());
    // SAFETY: `from.len()` bytes can be loaded here and stored there. The two do not overlap: a
    // slice of plain bytes contains no atomics.
    unsafe { copy(to.as_ptr() as *mut u8, from.as_ptr(), from.len()) };
}

/// Copies bytes from the start of `from`, as many as `to` has.
///
/// # Panics
/// If `from` is shorter than `to`.
#[inline]
pub fn copy_out(from: &[AtomicU8], to: &mut [u8]) {
    assert!(to.len() <= from.len(), "there are {} bytes, not {}", from.len(), to.len());
    // SAFETY: `to.len()` bytes can be loaded here and stored there. The two do not overlap: a slice
    // of plain bytes contains no atomics.
    unsafe { copy(to.as_mut_ptr(), from.as_ptr().cast(), to.len()) };
}

/// Copies bytes; observers may see any part of the copy.
///
/// # Safety
/// `length` bytes can be loaded at `from` and stored at `to`, and the two do not overlap.
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: promised by the caller; the direction flag is clear, as everywhere.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            "mov ecx, edx",
            "rep movsb",
            inout("rcx") length / 8 => _,
            inout("rdx") length % 8 => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    for index in 0..length {
        use std::sync::atomic::Ordering::Relaxed;
        // SAFETY: promised by the caller; every access to shared bytes is atomic.
        unsafe {
            let byte = AtomicU8::from_ptr(from.cast_mut().add(index)).load(Relaxed);
            AtomicU8::from_ptr(to.add(index)).store(byte, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mapping;

    #[test]
    fn copy_is_exact_at_any_alignment() {
        let mapping = Mapping::anonymous(4096).unwrap();
        let bytes: Vec<u8> = (1..=100).collect();
        for offset in 0..9 {
            for length in 0..bytes.len() {
                mapping.write(0, &[0; 120]);
                copy_in(mapping.cells(offset, 110), &bytes[..length]);
                let mut there = [0xff; 120];
                mapping.read(0, &mut there);
                assert_eq!(there[offset..offset + length], bytes[..length]);
                assert_eq!((there[..offset].to_vec(), there[offset + length]), (vec![0; offset], 0));
                let mut back = [0xff; 100];
                copy_out(mapping.cells(offset, 110), &mut back[..length]);
                assert_eq!((&back[..length], back[length]), (&bytes[..length], 0xff));
            }
        }
    }

    #[test]
    #[should_panic(expected = "5 bytes do not fit in 4")]
    fn no_more_is_copied_in_than_fits() {
        copy_in(Mapping::anonymous(4096).unwrap().cells(0, 4), &[0; 5]);
    }

    #[test]
    #[should_panic(expected = "there are 4 bytes, not 5")]
    fn no_more_is_copied_out_than_there_is() {
        copy_out(Mapping::anonymous(4096).unwrap().cells(0, 4), &mut [0; 5]);
    }
}
