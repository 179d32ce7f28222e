//! Memory shared by two hosts.

use std::sync::Arc;
use std::time::Duration;

use super::handle::Handle;
use super::model::Shrimp;
use super::receive_buffer::ReceiveBuffer;
use super::send_buffer::{Mode, SendBuffer};
use crate::core::device::Node;
use crate::error::{Error, Result};

/// Complementary mappings of one piece of memory (section 4.1). Each of two processes has a copy
/// and loads from it, and each store changes both copies. That is PRAM consistency: each sees the
/// other's stores in order, but they may see a different interleaving of both.
///
/// So each word should have one writer. Words that both store at once may stay different.
/// Algorithms like Dekker's or Peterson's do not provide mutual exclusion: they need the other side
/// to see a store before the next load, but here the store is still in flight. Pass a turn instead,
/// as producer and consumer do.
#[derive(Debug)]
pub struct Shared {
    // Dropped first: nothing may be sent from the memory after it is reused.
    out: SendBuffer,
    own: ReceiveBuffer,
}

impl Shared {
    pub(super) fn new(
        node: &Arc<Node<Shrimp>>,
        own: ReceiveBuffer,
        other: &Handle,
        mode: Mode,
    ) -> Result<Self> {
        if own.len() as u64 != other.length {
            return Err(Error::Invalid("memory is shared between receive buffers of one length"));
        }
        let out = SendBuffer::of_span(node, own.span(), other, 0, mode)?;
        Ok(Self { out, own })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns whether the length is zero, which it never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the mapping to the other copy, for its mode, its state, and deliberate updates.
    #[must_use]
    pub fn mapping(&self) -> &SendBuffer {
        &self.out
    }

    /// Stores bytes, like [`SendBuffer::write`].
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.out.write(offset, from)
    }

    /// Copies bytes out of this process' copy, which may contain a part of a concurrent store.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.out.read(offset, to)
    }

    /// Blocks until a word changes, like [`ReceiveBuffer::wait`].
    ///
    /// # Errors
    /// Same as [`ReceiveBuffer::wait`].
    pub fn wait(&self, offset: usize, value: u32) -> Result<u32> {
        self.wait_within(offset, value, None)
    }

    /// As [`Shared::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`Shared::wait`].
    pub fn wait_timeout(&self, offset: usize, value: u32, timeout: Duration) -> Result<u32> {
        self.wait_within(offset, value, Some(timeout))
    }

    fn wait_within(&self, offset: usize, value: u32, timeout: Option<Duration>) -> Result<u32> {
        self.out.settle();
        self.own.wait_within(offset, value, timeout)
    }
}

macro_rules! words {
    ($($load:ident, $store:ident, $word:ty, $bytes:literal;)*) => {
        impl Shared {
            $(
                #[doc = concat!("Stores ", $bytes, " at `offset`, a multiple of as many: here, and at the other's a little later.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`].
                #[inline]
                pub fn $store(&self, offset: usize, value: $word) -> Result<()> {
                    self.out.$store(offset, value)
                }

                #[doc = concat!("The ", $bytes, " at `offset` of this process' copy.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`].
                #[inline]
                pub fn $load(&self, offset: usize) -> Result<$word> {
                    self.out.$load(offset)
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
