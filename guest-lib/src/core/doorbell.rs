//! Doorbells: how a card that sleeps is told that there is work.

use std::fmt::Debug;
use std::sync::Arc;

use hamlyn_sys::Mapping;

use crate::error::Result;

/// Rings, for a terminus say: wakes a card that declared itself asleep.
pub trait Doorbell: Debug + Send + Sync {
    /// Rings.
    ///
    /// # Errors
    /// [`crate::Error::System`] if the card cannot be reached.
    fn ring(&self) -> Result<()>;
}

/// A doorbell page that the driver lets one map.
#[derive(Debug)]
pub(crate) struct MappedDoorbell(pub(crate) Arc<Mapping>);

impl Doorbell for MappedDoorbell {
    fn ring(&self) -> Result<()> {
        self.0.store_u32(0, 1);
        Ok(())
    }
}
