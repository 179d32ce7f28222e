//! Copies by the processor's own string instructions: a handful of instructions for as many bytes
//! as there are, where what a message costs is counted in instructions (section 5.2 of the SHRIMP
//! paper).
//!
//! They go by 8 bytes in rising order, and by 1 for what is left.

use std::sync::atomic::AtomicU8;

/// Copies bytes in, to the first of `to`.
///
/// # Panics
/// If there are more than `to` has.
#[inline]
pub fn copy_in(to: &[AtomicU8], from: &[u8]) {
    assert!(from.len() <= to.len(), "{} bytes do not fit in {}", from.len(), to.len());
    // SAFETY: so many can be loaded here and stored there, and the two do not overlap: no atomic
    // lies in a slice of bytes.
    unsafe { copy(to.as_ptr() as *mut u8, from.as_ptr(), from.len()) };
}

/// Copies the first bytes of `from` out, as many as `to` has.
///
/// # Panics
/// If `from` has not as many.
#[inline]
pub fn copy_out(from: &[AtomicU8], to: &mut [u8]) {
    assert!(to.len() <= from.len(), "there are {} bytes, not {}", from.len(), to.len());
    // SAFETY: so many can be loaded here and stored there, and the two do not overlap: no atomic
    // lies in a slice of bytes.
    unsafe { copy(to.as_mut_ptr(), from.as_ptr().cast(), to.len()) };
}

/// Copies bytes, in accesses of the processor's that others may see in any part.
///
/// # Safety
/// `length` bytes can be loaded at `from` and stored at `to`, and the two do not overlap.
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: what the caller promises; the direction is upwards, as everywhere.
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
        // SAFETY: what the caller promises; every access to shared bytes is atomic.
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
    fn bytes_are_copied_at_any_alignment_and_none_beside_them() {
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
