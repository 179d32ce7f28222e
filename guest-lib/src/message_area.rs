//! Message areas: where messages are deposited (section 2.2).

use std::sync::Arc;

use crate::error::Result;
use crate::memory::Memory;

/// A contiguous region of this process' memory that slots refer to; several slots may refer to one (section 2.2).
///
/// Cheap to clone: all clones are the same memory, which stays while a clone or a slot is left.
#[derive(Debug, Clone)]
pub struct MessageArea {
    memory: Arc<Memory>,
}

impl MessageArea {
    pub(crate) fn new(memory: Memory) -> Self {
        Self { memory: Arc::new(memory) }
    }

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Never: an area has at least a byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Copies received bytes out, from `offset` bytes on.
    ///
    /// A sender that still writes there may be seen in part; nothing is, once its message has been notified and
    /// nobody writes there again.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.memory.read(offset, to)
    }

    /// Writes bytes, from `offset` bytes on.
    ///
    /// # Errors
    /// [`crate::Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.memory.write(offset, from)
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}
