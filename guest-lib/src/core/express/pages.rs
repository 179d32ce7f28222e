//! Areas that this process receives in, and views of another host's.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use hamlyn_abi::uapi::HamlynExpressQuery;
use hamlyn_sys::Mapping;
use rustix::io::Errno;

use crate::core::attach::CardAttachment;
use crate::core::card::Card;
use crate::core::copies;
use crate::core::device::is;
use crate::error::{Error, Result, inside};

/// Bytes of a page, which areas are made of.
pub const PAGE: usize = 4096;

/// An area or a view as the driver made it, mapped.
#[derive(Debug)]
pub struct ExpressParts {
    /// Its number here; of an area, the other host's name for it as well.
    pub number: u32,
    /// An area's key; of a view 0.
    pub key: u64,
    /// Its memory.
    pub memory: Arc<Mapping>,
}

/// Pages that a process of another host shares, and nobody else. That process may change any byte
/// at any moment: load a word once, check it, and then use it.
///
/// Words are changed by ordinary atomics, fetch-and-op as well; but an emulated machine that can
/// have one processor only makes a load and a store of that (`docs/express.md`). What is behind a
/// barrier of both ends takes a full one ([`Pages::barrier`]): an emulated machine's compiler makes
/// too little of `fence(SeqCst)` for another machine to notice.
#[derive(Debug, Clone)]
pub struct Pages {
    memory: Arc<Mapping>,
}

impl Pages {
    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.length()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `count` words of 8 bytes from byte `offset` on. Fetch-and-op is atomic for both ends; in an
    /// emulated machine if that could have more than one processor (`docs/express.md`).
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`].
    pub fn words(&self, offset: usize, count: usize) -> Result<&[AtomicU64]> {
        self.check(offset, count, 8)?;
        Ok(self.memory.long_words(offset, count))
    }

    /// `count` words of 4 bytes from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`].
    pub fn half_words(&self, offset: usize, count: usize) -> Result<&[AtomicU32]> {
        self.check(offset, count, 4)?;
        Ok(self.memory.words(offset, count))
    }

    /// `count` bytes from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn bytes(&self, offset: usize, count: usize) -> Result<&[AtomicU8]> {
        self.check(offset, count, 1)?;
        Ok(self.memory.cells(offset, count))
    }

    /// Copies bytes out, from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        copies::out_of_express(self.bytes(offset, to.len())?, to);
        Ok(())
    }

    /// Copies bytes in, from byte `offset` on.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        copies::into_express(self.bytes(offset, from.len())?, from);
        Ok(())
    }

    /// Keeps stores before it before loads behind it, for the other machine as well.
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

/// What is given back when it is dropped.
#[derive(Debug)]
struct Held<A: CardAttachment + ?Sized> {
    attachment: Arc<A>,
    number: u32,
}

impl<A: CardAttachment + ?Sized> Drop for Held<A> {
    fn drop(&mut self) {
        // A card that is gone has nothing to give back.
        let _ = self.attachment.destroy_express(self.number);
    }
}

/// Pages that this process has made for another host ([`Card::create_express_area`]). A process
/// there that knows number and key may map them, once. When this is dropped they are taken out of
/// that process; clones of its [`Pages`] show memory that nobody else sees.
#[derive(Debug)]
pub struct ExpressArea<A: CardAttachment + ?Sized> {
    held: Held<A>,
    key: u64,
    pages: Pages,
}

impl<A: CardAttachment + ?Sized> ExpressArea<A> {
    /// What the other host calls it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.held.number
    }

    /// What a process there has to know.
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

/// Another host's area, as this process has it mapped ([`Card::map_express_area`]). When the other
/// end is gone it shows memory that nobody else sees, of zeros at first.
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
    /// Makes pages for a process of another host: `length` bytes, a multiple of [`PAGE`] and at
    /// most half of what the two hosts share. They are zeros.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without express memory, [`Error::System`]: `EHOSTUNREACH` if there is
    /// none with that host, `ENOSPC` if too few pages are free, or they lie in more than 30 runs,
    /// `EDQUOT` if too few of the user's share, `EHOSTDOWN` if some are still a lost host's that
    /// does not settle, `ENOBUFS` if it cannot be asked.
    pub fn create_express_area(&self, host: u32, length: usize) -> Result<ExpressArea<A>> {
        if length == 0 || length % PAGE != 0 {
            let object = "length of express memory";
            return Err(Error::Misaligned { object, value: length as u64, multiple: PAGE as u64 });
        }
        let ExpressParts { number, key, memory } = self.attachment().create_express(host, length)?;
        Ok(ExpressArea { held: self.held(number), key, pages: Pages { memory } })
    }

    /// Maps pages that a process of another host has made for this one. Waits for that host's
    /// answer.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without express memory, [`Error::System`]: `EHOSTUNREACH` if there is
    /// none with that host, or it has another switch's; `EACCES` if there is no such area, or not
    /// with that key; `EBUSY` if somebody has mapped it; `EHOSTDOWN`.
    pub fn map_express_area(&self, host: u32, area: u32, key: u64) -> Result<ExpressView<A>> {
        let ExpressParts { number, memory, .. } = self.attachment().map_express(host, area, key)?;
        Ok(ExpressView { _held: self.held(number), pages: Pages { memory } })
    }

    /// What there is of express memory with a host.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without express memory, [`Error::System`].
    pub fn express(&self, host: u32) -> Result<HamlynExpressQuery> {
        self.attachment().query_express(host)
    }

    fn held(&self, number: u32) -> Held<A> {
        Held { attachment: self.attachment().clone(), number }
    }
}

/// Whether it says that there is no express memory with that host, rather than that something is
/// wrong.
pub(crate) fn is_absent(error: &Error) -> bool {
    match error {
        Error::Unsupported(_) => true,
        Error::System { source, .. } => is(source, Errno::HOSTUNREACH) || is(source, Errno::OPNOTSUPP),
        _ => false,
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
    fn only_a_lack_of_express_memory_is_an_absence() {
        let system = |errno: Errno| Error::system("map")(errno.into());
        assert!(is_absent(&Error::Unsupported("none")) && is_absent(&system(Errno::HOSTUNREACH)));
        for errno in [Errno::ACCESS, Errno::BUSY, Errno::HOSTDOWN, Errno::NOSPC, Errno::DQUOT] {
            assert!(!is_absent(&system(errno)), "{errno}");
        }
    }
}
