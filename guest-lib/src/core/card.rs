//! A card of any model, however it is reached.

use std::sync::Arc;

use crate::core::attach::CardAttachment;
use crate::error::Result;

/// An open card: one protection domain. What is created from it is its own.
///
/// `A` is what the card's model does besides what any card does. Cheap to clone; it is closed when
/// the last clone and the last of what was created from it are dropped.
#[derive(Debug)]
pub struct Card<A: ?Sized> {
    attachment: Arc<A>,
}

impl<A: ?Sized> Clone for Card<A> {
    fn clone(&self) -> Self {
        Self { attachment: self.attachment.clone() }
    }
}

/// Results of a card's self-tests: none, or what failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelfTest {
    /// Register access.
    pub access: Option<&'static str>,
    /// DMA.
    pub dma: Option<&'static str>,
    /// Interrupts: the vector that did not arrive.
    pub interrupt: Option<u32>,
}

impl SelfTest {
    /// Whether all passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.access.is_none() && self.dma.is_none() && self.interrupt.is_none()
    }
}

/// [`Card::settle`], for objects that hold the attachment alone.
pub(crate) fn settle<A: CardAttachment + ?Sized>(attachment: &A) -> Result<()> {
    // Any command does: the card carries it out between two packets.
    attachment.statistics().map(drop)
}

impl<A: CardAttachment + ?Sized> Card<A> {
    /// A card reached in a way of one's own.
    #[must_use]
    pub fn attached(attachment: Arc<A>) -> Self {
        Self { attachment }
    }

    /// Waits until the card has done with every packet that it had begun to check. After it, what
    /// was taken away before it (an entry's key or bounds, section 2.7) is gone for certain. It
    /// goes through the driver.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn settle(&self) -> Result<()> {
        settle(&*self.attachment)
    }

    /// Runs the self-tests of access, DMA and interrupts. In a guest that takes `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn self_test(&self) -> Result<SelfTest> {
        let results = self.attachment.self_test()?;
        Ok(SelfTest {
            access: (results.access != 0)
                .then_some("the scratch register does not answer with the complement"),
            dma: match results.dma {
                0 => None,
                1 => Some("the card refused"),
                2 => Some("the bytes are wrong: is guest memory shared with the card (share=on)?"),
                3 => Some("memory of processes cannot be shared with the card (are there bounce buffers?)"),
                _ => Some("unknown failure"),
            },
            interrupt: results.interrupt.checked_sub(1),
        })
    }

    pub(crate) fn attachment(&self) -> &Arc<A> {
        &self.attachment
    }
}
