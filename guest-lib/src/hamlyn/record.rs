//! What has arrived, where it lies.

use std::borrow::Cow;
use std::sync::atomic::AtomicU8;

use crate::error::{Result, inside};
use crate::hamlyn::message_area::MessageArea;

/// Received bytes in the message area that they were deposited in. The receiver that lends them
/// cannot let anybody write there before this is gone.
///
/// They are read through calls, for the memory is shared with the card; nothing else in the library
/// copies them.
#[derive(Debug)]
pub(crate) struct Landed<'a> {
    area: Cow<'a, MessageArea>,
    start: usize,
    length: usize,
}

impl<'a> Landed<'a> {
    /// `length` bytes of `area`, from `start` on.
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
        // Inside: `new` has checked it.
        self.area.cells(self.start, self.length).unwrap_or_default()
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        // Inside: `new` has checked it.
        let _ = self.area.read(self.start, &mut bytes);
        bytes
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.area.as_ptr().wrapping_add(self.start)
    }
}

/// The calls of a type that has a field `landed`.
macro_rules! landed {
    ($type:ident) => {
        impl $type<'_> {
            /// How many bytes it has.
            #[must_use]
            pub fn len(&self) -> usize {
                self.landed.len()
            }

            /// Whether it has no bytes.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Copies bytes out, from its byte `offset` on.
            ///
            /// # Errors
            /// [`crate::Error::PastEnd`].
            pub fn read(&self, offset: usize, to: &mut [u8]) -> crate::Result<()> {
                self.landed.read(offset, to)
            }

            /// Its bytes in place, without copying. The card does not write to them for as long as
            /// this lives, unless it is broken; that is why each is loaded by itself, and why they
            /// are no plain bytes. Those are what an area's [`crate::MessageArea::take_back`]
            /// gives.
            #[must_use]
            pub fn cells(&self) -> &[std::sync::atomic::AtomicU8] {
                self.landed.cells()
            }

            /// A copy of all of it.
            #[must_use]
            pub fn to_vec(&self) -> Vec<u8> {
                self.landed.to_vec()
            }

            /// Where it lies in this process' memory: the paper's start pointer. Only for languages
            /// that can make no other use of it; what it points to may change once this is gone.
            #[must_use]
            pub fn as_ptr(&self) -> *const u8 {
                self.landed.as_ptr()
            }
        }
    };
}
pub(crate) use landed;
