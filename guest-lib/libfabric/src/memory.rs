//! Memory of the program that uses libfabric.

use smallvec::{SmallVec, smallvec};

/// A contiguous range of the program's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Part {
    address: usize,
    length: usize,
}

/// Buffers of one operation, in order. The program leaves them alone until the operation completes:
/// that is libfabric's rule (fi_msg(3), fi_mr(3)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Area {
    parts: SmallVec<[Part; 1]>,
}

impl Area {
    /// One buffer.
    ///
    /// # Safety
    /// The range is mapped until the operation that this area is part of has completed.
    pub(crate) unsafe fn one(address: *const u8, length: usize) -> Self {
        Self { parts: smallvec![Part { address: address as usize, length }] }
    }

    /// The buffers of an array of `iovec`.
    ///
    /// # Safety
    /// `vectors` points to `count` vectors; for each, see [`Area::one`].
    pub(crate) unsafe fn many(vectors: *const Part, count: usize) -> Self {
        if count == 0 || vectors.is_null() {
            return Self::default();
        }
        // SAFETY: by this function's contract. `Part` is laid out like `struct iovec`.
        Self { parts: unsafe { std::slice::from_raw_parts(vectors, count) }.into() }
    }

    /// The buffers of an array of `fi_ioc`, which counts elements of `size` bytes.
    ///
    /// # Safety
    /// As for [`Area::many`].
    pub(crate) unsafe fn elements(vectors: *const Part, count: usize, size: usize) -> Self {
        // SAFETY: by this function's contract. `struct fi_ioc` is laid out alike.
        let mut area = unsafe { Self::many(vectors, count) };
        for part in &mut area.parts {
            part.length = part.length.saturating_mul(size);
        }
        area
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.length))
    }

    /// Address of the first byte.
    pub(crate) fn start(&self) -> usize {
        self.parts.first().map_or(0, |part| part.address)
    }

    /// The bytes from `offset` on, at most `length` of them.
    pub(crate) fn cut(&self, mut offset: usize, mut length: usize) -> Self {
        let mut parts = SmallVec::new();
        for part in &self.parts {
            let skipped = offset.min(part.length);
            offset -= skipped;
            let taken = (part.length - skipped).min(length);
            length -= taken;
            if taken > 0 {
                parts.push(Part { address: part.address + skipped, length: taken });
            }
        }
        Self { parts }
    }

    /// Calls `read` with each range, and the offset at which it begins.
    pub(crate) fn each_read(&self, mut read: impl FnMut(usize, &[u8])) {
        let mut offset = 0;
        for part in self.parts.iter().filter(|part| part.length > 0) {
            // SAFETY: the range is mapped, by the contract of `one` and `many`.
            read(offset, unsafe { std::slice::from_raw_parts(part.address as *const u8, part.length) });
            offset += part.length;
        }
    }

    /// Calls `write` with each range, and the offset at which it begins. Stops at the first error.
    pub(crate) fn each_write<E>(
        &self,
        mut write: impl FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut offset = 0;
        for part in self.parts.iter().filter(|part| part.length > 0) {
            // SAFETY: the range is mapped and the program leaves it alone, by the contract of `one`
            // and `many`.
            write(offset, unsafe { std::slice::from_raw_parts_mut(part.address as *mut u8, part.length) })?;
            offset += part.length;
        }
        Ok(())
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.each_read(|_, part| bytes.extend_from_slice(part));
        bytes
    }

    /// Stores bytes from `offset` on, as far as there is room. Returns how many.
    pub(crate) fn fill(&self, offset: usize, bytes: &[u8]) -> usize {
        let room = self.cut(offset, bytes.len());
        let filled = room.each_write(|at, part| {
            part.copy_from_slice(&bytes[at..at + part.len()]);
            Ok::<(), std::convert::Infallible>(())
        });
        filled.map_or(0, |()| room.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_areas_cross_their_parts() {
        let (mut low, mut high) = ([0_u8; 4], [0_u8; 6]);
        let parts = [
            Part { address: low.as_mut_ptr() as usize, length: 4 },
            Part { address: high.as_mut_ptr() as usize, length: 6 },
        ];
        // SAFETY: both arrays outlive the area.
        let area = unsafe { Area::many(parts.as_ptr(), 2) };
        assert_eq!((area.len(), area.cut(3, 4).len(), area.cut(9, 4).len()), (10, 4, 1));
        assert_eq!(area.fill(3, b"abcd"), 4);
        assert_eq!(area.fill(8, b"xyz"), 2, "only two bytes are left");
        assert_eq!(
            area.cut(2, 7).to_vec(),
            b"\0abcd\0\0".to_vec()[..5].iter().chain(b"\0x").copied().collect::<Vec<_>>()
        );
    }
}
