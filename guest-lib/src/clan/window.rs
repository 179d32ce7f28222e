//! Mapped memory of another host.

use std::sync::Arc;

use hamlyn_abi::clan::uapi::{CLAN_MAX_WINDOW, ClanWindow};
use hamlyn_sys::{Access, Mapping, Word};

use super::attachment::{Attachment, Object};
use super::descriptor::Descriptor;
use super::endpoint::core::Core;
use super::place::accesses;
use crate::core::place::{PAGE, aligned, multiple};
use crate::error::{Error, Result, at_most, inside};

/// A mapping of a descriptor's memory (sections 2.1 and 3.2).
///
/// A store goes to the other host without waiting for it; stores arrive in order. A load is a read
/// across the network and stalls the processor: the paper's programs use none.
///
/// The card handles each access separately. Above some hundred bytes, [`super::Dma`] is faster.
#[derive(Debug)]
pub struct Window {
    open: Open,
    pages: Arc<Mapping>,
    length: usize,
    descriptor: Descriptor,
    // Dropped last: an endpoint cannot be closed while a window refers to it.
    core: Arc<Core>,
}

#[derive(Debug)]
struct Open {
    card: Arc<dyn Attachment>,
    number: u32,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.card.close(Object::Window, self.number);
    }
}

impl Window {
    pub(super) fn open(
        core: &Arc<Core>,
        descriptor: &Descriptor,
        offset: u64,
        length: usize,
    ) -> Result<Self> {
        if length == 0 {
            return Err(Error::Invalid("a window has at least one byte"));
        }
        at_most("window length", length as u64, CLAN_MAX_WINDOW)?;
        inside("aperture", offset, length as u64, descriptor.length)?;
        multiple("first byte of a window", offset as usize, 8)?;
        let mut opened = ClanWindow {
            key: descriptor.key,
            offset,
            length: length as u64,
            host: descriptor.host,
            aperture: descriptor.aperture,
            endpoint: core.number(),
            ..ClanWindow::default()
        };
        let card = core.card();
        card.open_window(&mut opened)?;
        let open = Open { card: card.clone(), number: opened.window };
        let bytes = length.next_multiple_of(PAGE);
        let pages = card.map_pages("window", opened.offset_of_pages, bytes, Access::ReadWrite)?;
        Ok(Self { open, pages, length, descriptor: *descriptor, core: core.clone() })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the length is zero, which it never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the address of the mapping in this process. Only for languages that cannot use the
    /// other methods.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.pages.address() as usize as *const u8
    }

    /// Returns the window's number at this card.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.open.number
    }

    /// Returns the descriptor of the mapped memory.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Stores bytes with as few stores as possible, most of them 8 bytes wide.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        inside("window", offset as u64, from.len() as u64, self.length as u64)?;
        for access in accesses(offset, from.len()) {
            let mut bytes = [0; 8];
            let piece = &from[access.at - offset..][..access.bytes];
            bytes[..access.bytes].copy_from_slice(piece);
            let value = u64::from_le_bytes(bytes);
            match access.bytes {
                8 => self.pages.store_word(access.at, value),
                4 => self.pages.store_word(access.at, value as u32),
                2 => self.pages.store_word(access.at, value as u16),
                _ => self.pages.store_word(access.at, value as u8),
            }
        }
        Ok(())
    }

    /// Loads bytes; each piece is a read across the network.
    ///
    /// # Errors
    /// [`Error::PastEnd`]; [`crate::clan::Fault`] if the other host refuses or does not answer;
    /// [`Error::Unsupported`] if the window maps a group.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("window", offset as u64, to.len() as u64, self.length as u64)?;
        let begin = offset;
        for access in accesses(offset, to.len()) {
            let value = match access.bytes {
                8 => self.load::<u64>(access.at)?,
                4 => self.load::<u32>(access.at)?.into(),
                2 => self.load::<u16>(access.at)?.into(),
                _ => self.load::<u8>(access.at)?.into(),
            };
            to[access.at - begin..][..access.bytes].copy_from_slice(&value.to_le_bytes()[..access.bytes]);
        }
        Ok(())
    }

    fn check<W: Word>(&self, offset: usize) -> Result<()> {
        inside("window", offset as u64, size_of::<W>() as u64, self.length as u64)?;
        aligned::<W>("offset", offset)
    }

    #[inline]
    fn store<W: Word>(&self, offset: usize, value: W) -> Result<()> {
        self.check::<W>(offset)?;
        self.pages.store_word(offset, value);
        Ok(())
    }

    /// Loads one word. All ones can be a value, or the result of a failed load, so only then the
    /// endpoint's fault counters are checked.
    fn load<W: Word + Ones>(&self, offset: usize) -> Result<W> {
        self.check::<W>(offset)?;
        if self.descriptor.is_group() {
            return Err(Error::Unsupported("a group is written to, and never read"));
        }
        let before = self.core.faults();
        let value = self.pages.load_word::<W>(offset);
        if !value.is_all_ones() {
            return Ok(value);
        }
        match self.core.fault_since(before) {
            Some(fault) => Err(fault.into()),
            None => Ok(value),
        }
    }
}

trait Ones {
    fn is_all_ones(&self) -> bool;
}

macro_rules! words {
    ($($load:ident, $store:ident, $word:ty, $bytes:literal;)*) => {
        $(
            impl Ones for $word {
                fn is_all_ones(&self) -> bool {
                    *self == <$word>::MAX
                }
            }
        )*

        impl Window {
            $(
                #[doc = concat!("Loads the ", $bytes, " at `offset`, a multiple of as many: a read across the network.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`]; [`crate::clan::Fault`] if the other
                /// host refuses or does not answer; [`Error::Unsupported`] if the window maps a
                /// group.
                pub fn $load(&self, offset: usize) -> Result<$word> {
                    self.load(offset)
                }

                #[doc = concat!("Stores ", $bytes, " at `offset`, a multiple of as many, in one piece.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`].
                #[inline]
                pub fn $store(&self, offset: usize, value: $word) -> Result<()> {
                    self.store(offset, value)
                }
            )*
        }
    };
}

words! {
    load_u8, store_u8, u8, "byte";
    load_u16, store_u16, u16, "2 bytes";
    load_u32, store_u32, u32, "4 bytes";
    load_u64, store_u64, u64, "8 bytes";
}
