//! Received data, in place.

use std::borrow::Cow;
use std::sync::atomic::AtomicU8;

use crate::error::{Result, inside};
use crate::hamlyn::message_area::MessageArea;

/// Received bytes in the message area that they were deposited in. The receiver that lends them
/// cannot let any sender write there until this is dropped.
///
/// They are read through calls, because the memory is shared with the card. Nothing else in the
/// library copies them.
#[derive(Debug)]
pub(crate) struct Landed<'a> {
    area: Cow<'a, MessageArea>,
    start: usize,
    length: usize,
}

impl<'a> Landed<'a> {
    /// Refers to `length` bytes of `area`, starting at `start`.
    pub(crate) fn new(area: Cow<'a, MessageArea>, start: usize, length: usize) -> Result<Self> {
        inside("message area", start as u64, length as u64, area.len() as u64)?;
        Ok(Self { area, start, length })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("record", offset as u64, to.len() as u64, self.length as u64)?;
        self.area.read(self.start + offset, to)
    }

    pub(crate) fn cells(&self) -> &[AtomicU8] {
        // In bounds: `new` has checked it.
        self.area.cells(self.start, self.length).unwrap_or_default()
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        // In bounds: `new` has checked it.
        let _ = self.area.read(self.start, &mut bytes);
        bytes
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.area.as_ptr().wrapping_add(self.start)
    }
}

/// Implements the accessors of a type that has a field `landed`.
macro_rules! landed {
    ($type:ident) => {
        impl $type<'_> {
            /// Returns the number of bytes.
            #[must_use]
            pub fn len(&self) -> usize {
                self.landed.len()
            }

            /// Returns true if there are no bytes.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Copies bytes out, starting at byte `offset`.
            ///
            /// # Errors
            /// [`crate::Error::PastEnd`].
            pub fn read(&self, offset: usize, to: &mut [u8]) -> crate::Result<()> {
                self.landed.read(offset, to)
            }

            /// Returns the bytes in place, without copying. The card does not write to them while
            /// this value lives, unless the card is broken. That is why each byte is loaded
            /// separately, and why they are not plain bytes. Use an area's
            /// [`crate::MessageArea::take_back`] to get plain bytes.
            #[must_use]
            pub fn cells(&self) -> &[std::sync::atomic::AtomicU8] {
                self.landed.cells()
            }

            /// Returns a copy of all bytes.
            #[must_use]
            pub fn to_vec(&self) -> Vec<u8> {
                self.landed.to_vec()
            }

            /// Returns the address in this process' memory: the paper's start pointer. Only for
            /// languages that cannot use the other calls. The memory may change once this value is
            /// dropped.
            #[must_use]
            pub fn as_ptr(&self) -> *const u8 {
                self.landed.as_ptr()
            }
        }
    };
}
pub(crate) use landed;
