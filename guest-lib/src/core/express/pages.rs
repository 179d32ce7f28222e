//! Areas that this process receives in, and views of other hosts' areas.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use hamlyn_abi::uapi::UlnExpressQuery;
use hamlyn_sys::Mapping;
use rustix::io::Errno;

use crate::core::attach::{CardAttachment, ExpressParts};
use crate::core::card::Card;
use crate::core::copies;
use crate::core::device::is;
use crate::error::{Error, ErrorKind, Result, inside};

/// Size of a page, the unit of areas, in bytes.
pub const PAGE: usize = 4096;

/// Pages shared with exactly one process of another host. That process may change any byte at any
/// time: load a word once, check the loaded value, and then use it.
///
/// Ordinary atomics work on the words, including fetch-and-op. The exception is an emulated machine
/// that can only have one processor: it executes fetch-and-op as a load and a store
/// (`docs/express.md`). Protocols that rely on barriers at both ends must use a full barrier
/// ([`Pages::barrier`]). An emulated machine's compiler translates `fence(SeqCst)` too weakly for
/// another machine.
#[derive(Debug, Clone)]
pub struct Pages {
    memory: Arc<Mapping>,
}

impl Pages {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.length()
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `count` words of 8 bytes, starting at byte `offset`. Fetch-and-op is atomic for both
    /// ends. In an emulated machine this requires that the machine could have more than one
    /// processor (`docs/express.md`).
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`].
    pub fn words(&self, offset: usize, count: usize) -> Result<&[AtomicU64]> {
        self.check(offset, count, 8)?;
        Ok(self.memory.long_words(offset, count))
    }

    /// Returns `count` words of 4 bytes, starting at byte `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`].
    pub fn half_words(&self, offset: usize, count: usize) -> Result<&[AtomicU32]> {
        self.check(offset, count, 4)?;
        Ok(self.memory.words(offset, count))
    }

    /// Returns `count` bytes, starting at byte `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn bytes(&self, offset: usize, count: usize) -> Result<&[AtomicU8]> {
        self.check(offset, count, 1)?;
        Ok(self.memory.cells(offset, count))
    }

    /// Copies bytes out, starting at byte `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        copies::out_of_express(self.bytes(offset, to.len())?, to);
        Ok(())
    }

    /// Copies bytes in, starting at byte `offset`.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        copies::into_express(self.bytes(offset, from.len())?, from);
        Ok(())
    }

    /// Orders earlier stores before later loads, also as seen by the other machine.
    #[inline]
    pub fn barrier() {
        hamlyn_sys::barrier::before_peer_check();
    }

    pub(crate) fn memory(&self) -> &Arc<Mapping> {
        &self.memory
    }

    fn check(&self, offset: usize, count: usize, size: u64) -> Result<()> {
        let (offset, length) = (offset as u64, (count as u64).saturating_mul(size));
        inside("express memory", offset, length, self.len() as u64)?;
        if offset % size != 0 {
            return Err(Error::Misaligned {
                object: "offset in express memory",
                value: offset,
                multiple: size,
            });
        }
        Ok(())
    }
}

/// Releases an area or a view when dropped.
#[derive(Debug)]
struct Held<A: CardAttachment + ?Sized> {
    attachment: Arc<A>,
    number: u32,
}

impl<A: CardAttachment + ?Sized> Drop for Held<A> {
    fn drop(&mut self) {
        // A card that is gone has nothing to release.
        let _ = self.attachment.destroy_express(self.number);
    }
}

/// Pages that this process has created for another host ([`Card::create_express_area`]). A process
/// there that knows the number and the key may map them, once. Dropping the area revokes them from
/// that process; clones of its [`Pages`] then show private memory.
#[derive(Debug)]
pub struct ExpressArea<A: CardAttachment + ?Sized> {
    held: Held<A>,
    key: u64,
    pages: Pages,
}

impl<A: CardAttachment + ?Sized> ExpressArea<A> {
    /// Returns the area's number, which the other host needs to map it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.held.number
    }

    /// Returns the key that the other process needs to map the area.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }
}

impl<A: CardAttachment + ?Sized> Deref for ExpressArea<A> {
    type Target = Pages;

    fn deref(&self) -> &Pages {
        &self.pages
    }
}

/// Another host's area, mapped by this process ([`Card::map_express_area`]). When the other end is
/// gone, it shows private memory, zeroed at first.
#[derive(Debug)]
pub struct ExpressView<A: CardAttachment + ?Sized> {
    _held: Held<A>,
    pages: Pages,
}

impl<A: CardAttachment + ?Sized> Deref for ExpressView<A> {
    type Target = Pages;

    fn deref(&self) -> &Pages {
        &self.pages
    }
}

impl<A: CardAttachment + ?Sized> Card<A> {
    /// Creates zeroed pages for a process of another host: `length` bytes, a multiple of [`PAGE`]
    /// and at most half of the memory that the two hosts share.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without express memory, [`Error::System`]: `EHOSTUNREACH` if none is
    /// shared with that host; `ENOSPC` if too few pages are free, or they lie in more than 30 runs;
    /// `EDQUOT` if the user's share has too few; `EHOSTDOWN` if some still belong to a lost host
    /// that does not settle; `ENOBUFS` if that host cannot be asked.
    pub fn create_express_area(&self, host: u32, length: usize) -> Result<ExpressArea<A>> {
        if length == 0 || length % PAGE != 0 {
            let object = "length of express memory";
            return Err(Error::Misaligned { object, value: length as u64, multiple: PAGE as u64 });
        }
        let ExpressParts { number, key, memory } = self.attachment().create_express(host, length)?;
        Ok(ExpressArea { held: self.held(number), key, pages: Pages { memory } })
    }

    /// Maps pages that a process of another host has created for this host. Blocks until that host
    /// answers.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without express memory, [`Error::System`]: `EHOSTUNREACH` if none is
    /// shared with that host, or that host uses another switch's; `EACCES` if the area does not
    /// exist or the key is wrong; `EBUSY` if it is already mapped; `EHOSTDOWN`.
    pub fn map_express_area(&self, host: u32, area: u32, key: u64) -> Result<ExpressView<A>> {
        let ExpressParts { number, memory, .. } = self.attachment().map_express(host, area, key)?;
        Ok(ExpressView { _held: self.held(number), pages: Pages { memory } })
    }

    /// Returns the state of the express memory shared with a host.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without express memory, [`Error::System`].
    pub fn express(&self, host: u32) -> Result<UlnExpressQuery> {
        self.attachment().query_express(host)
    }

    fn held(&self, number: u32) -> Held<A> {
        Held { attachment: self.attachment().clone(), number }
    }
}

/// Returns whether the error means that no express memory is shared with that host, and not a
/// failure.
pub(crate) fn is_absent(error: &Error) -> bool {
    match error {
        Error::Unsupported(_) => true,
        Error::System { source, .. } => is(source, Errno::HOSTUNREACH) || is(source, Errno::OPNOTSUPP),
        _ => false,
    }
}

/// Returns whether the error means that the shared memory, or the user's share of it, is used up.
pub(crate) fn is_full(error: &Error) -> bool {
    match error {
        Error::System { source, .. } => is(source, Errno::NOSPC) || is(source, Errno::DQUOT),
        error => error.kind() == ErrorKind::Exhausted,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn words_and_bytes_lie_inside() {
        let pages = Pages { memory: Arc::new(Mapping::anonymous(PAGE).unwrap()) };
        assert_eq!(pages.words(4088, 1).unwrap()[0].fetch_add(7, Ordering::AcqRel), 0);
        let mut last = [0; 8];
        pages.read(4088, &mut last).unwrap();
        assert_eq!(u64::from_le_bytes(last), 7);
        pages.write(0, &[1, 2, 3, 4]).unwrap();
        assert_eq!(pages.half_words(0, 1).unwrap()[0].load(Ordering::Relaxed), 0x0403_0201);
        assert!(matches!(pages.words(4, 1), Err(Error::Misaligned { value: 4, multiple: 8, .. })));
        for (offset, count) in [(4096, 1), (0, 513), (8, usize::MAX), (usize::MAX, 1)] {
            assert!(matches!(pages.words(offset, count), Err(Error::PastEnd { .. })), "{offset} {count}");
        }
        assert!(matches!(pages.read(4090, &mut [0; 8]), Err(Error::PastEnd { .. })));
    }

    #[test]
    fn only_missing_express_memory_is_an_absence() {
        let system = |errno: Errno| Error::system("map")(errno.into());
        assert!(is_absent(&Error::Unsupported("none")) && is_absent(&system(Errno::HOSTUNREACH)));
        for errno in [Errno::ACCESS, Errno::BUSY, Errno::HOSTDOWN, Errno::NOSPC, Errno::DQUOT] {
            assert!(!is_absent(&system(errno)), "{errno}");
        }
    }
}
