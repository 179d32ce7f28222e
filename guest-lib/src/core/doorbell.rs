//! Doorbells: wake-ups for a sleeping card that has work.

use std::fmt::Debug;
use std::sync::Arc;

use hamlyn_sys::Mapping;

use crate::error::Result;

/// A doorbell, for example of a terminus: wakes a card that declared itself asleep.
pub trait Doorbell: Debug + Send + Sync {
    /// Rings the doorbell.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the card cannot be reached.
    fn ring(&self) -> Result<()>;
}

/// A doorbell page mapped through the driver.
#[derive(Debug)]
pub(crate) struct MappedDoorbell(pub(crate) Arc<Mapping>);

impl Doorbell for MappedDoorbell {
    fn ring(&self) -> Result<()> {
        self.0.store_u32(0, 1);
        Ok(())
    }
}
