//! Application memory that is lent to the library by value.

use std::fmt::Debug;

use hamlyn_abi::family::area::ULN_MAX_AREA;
use hamlyn_sys::Mapping;

use crate::core::attach::CardAttachment;
use crate::core::memory::Memory;
use crate::error::{Error, GivenBack, Result, at_most};

/// Size of a page, in bytes.
const PAGE: usize = 4096;

/// An owner of bytes that can be lent: a `Vec<u8>`, a `Box<[u8]>`, an array, another crate's
/// mapping.
pub trait Lendable: AsMut<[u8]> + Debug + Send + 'static {}

impl<T: AsMut<[u8]> + Debug + Send + 'static> Lendable for T {}

/// Zeroed whole pages of ordinary memory, which can be lent to any card.
#[derive(Debug)]
pub struct Pages {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Pages {
    /// Allocates at least `length` bytes, and at least one page.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let length = length.max(1).next_multiple_of(PAGE);
        // Exclude the vector's first and last partial page, which may hold unrelated bytes.
        let memory = vec![0; length + PAGE - 1];
        let start = (memory.as_ptr() as usize).next_multiple_of(PAGE) - memory.as_ptr() as usize;
        Self { memory, start, length }
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl AsMut<[u8]> for Pages {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// Fails if the length is not valid for an area or a send buffer.
pub(crate) fn check(length: usize) -> Result<()> {
    if length == 0 {
        return Err(Error::Invalid("memory of no bytes"));
    }
    at_most("memory length", length as u64, ULN_MAX_AREA)
}

/// Lends the bytes that a value owns, or returns the value on failure.
pub(crate) fn lend<T: Lendable>(
    attachment: &(impl CardAttachment + ?Sized),
    mut memory: T,
) -> Result<Memory, GivenBack<T>> {
    if let Err(error) = check(memory.as_mut().len()) {
        return Err(GivenBack::new(error, memory));
    }
    attachment
        .lend(Mapping::over(memory))
        .map_err(|failed| GivenBack::new(failed.error, made_of(failed.back.take_back().ok())))
}

/// Returns the value of a failed loan.
pub(crate) fn returned<T: 'static>(memory: Memory) -> T {
    made_of(memory.take_back().ok())
}

/// Unwraps a value of which a mapping was just made, and of which there is no other owner.
fn made_of<T>(back: Option<T>) -> T {
    back.unwrap_or_else(|| unreachable!("an attachment gives back what it was given"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_and_zeroed() {
        for (length, whole) in [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192)] {
            let mut pages = Pages::new(length);
            assert_eq!((pages.as_ref().as_ptr() as usize % PAGE, pages.as_ref().len()), (0, whole));
            pages.as_mut()[whole - 1] = 1;
            assert!(pages.as_ref()[..whole - 1].iter().all(|byte| *byte == 0));
        }
    }
}
