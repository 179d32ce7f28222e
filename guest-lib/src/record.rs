//! What has arrived, where it lies.

use std::marker::PhantomData;

use crate::error::{Result, inside};
use crate::message_area::MessageArea;

/// Received bytes in the message area that they were deposited in. The receiver that lends them cannot let anybody
/// write there before this is gone.
///
/// They are read through calls, for the memory is shared with the card; nothing else in the library copies them.
#[derive(Debug)]
pub(crate) struct Landed<'a> {
    area: MessageArea,
    start: usize,
    length: usize,
    lender: PhantomData<&'a ()>,
}

impl Landed<'_> {
    /// `length` bytes of `area`, from `start` on.
    pub(crate) fn new(area: &MessageArea, start: usize, length: usize) -> Result<Self> {
        inside("message area", start as u64, length as u64, area.len() as u64)?;
        Ok(Self { area: area.clone(), start, length, lender: PhantomData })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        inside("record", offset as u64, to.len() as u64, self.length as u64)?;
        self.area.read(self.start + offset, to)
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        // Inside: `new` has checked it.
        let _ = self.area.read(self.start, &mut bytes);
        bytes
    }

    pub(crate) fn as_ptr(&self) -> *const u8 {
        (self.area.memory().mapping().address() as usize + self.start) as *const u8
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

            /// A copy of all of it.
            #[must_use]
            pub fn to_vec(&self) -> Vec<u8> {
                self.landed.to_vec()
            }

            /// Where it lies in this process' memory: the paper's start pointer. Only for languages that can make no
            /// other use of it; what it points to may change once this is gone.
            #[must_use]
            pub fn as_ptr(&self) -> *const u8 {
                self.landed.as_ptr()
            }
        }
    };
}
pub(crate) use landed;
