//! A card of any model, independent of the attachment.

use std::sync::Arc;

use crate::core::attach::CardAttachment;
use crate::error::Result;

/// An open card: one protection domain, which owns the objects created from it.
///
/// `A` has the operations of the card's model beyond those of any card. Clones are cheap. The card
/// is closed when the last clone and the last object created from it are dropped.
#[derive(Debug)]
pub struct Card<A: ?Sized> {
    attachment: Arc<A>,
}

impl<A: ?Sized> Clone for Card<A> {
    fn clone(&self) -> Self {
        Self { attachment: self.attachment.clone() }
    }
}

/// Results of a card's self-tests: `None`, or the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelfTest {
    /// Register access.
    pub access: Option<&'static str>,
    /// DMA.
    pub dma: Option<&'static str>,
    /// Interrupts: the vector of the missing interrupt.
    pub interrupt: Option<u32>,
}

impl SelfTest {
    /// Returns whether all tests passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.access.is_none() && self.dma.is_none() && self.interrupt.is_none()
    }
}

/// [`Card::settle`] for objects that only hold the attachment.
pub(crate) fn settle<A: CardAttachment + ?Sized>(attachment: &A) -> Result<()> {
    // Any command will do: the card executes it between two packets.
    attachment.statistics().map(drop)
}

impl<A: CardAttachment + ?Sized> Card<A> {
    /// Creates a card with a custom attachment.
    #[must_use]
    pub fn attached(attachment: Arc<A>) -> Self {
        Self { attachment }
    }

    /// Blocks until the card has finished all packets whose checks it had started. Access that was
    /// revoked before the call (an entry's key or bounds, section 2.7) is then revoked for certain.
    /// The call goes through the driver.
    ///
    /// # Errors
    /// [`crate::Error::System`].
    pub fn settle(&self) -> Result<()> {
        settle(&*self.attachment)
    }

    /// Runs the self-tests of access, DMA and interrupts. In a guest this needs `CAP_SYS_ADMIN`.
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
