//! Reasons for refusing a command.

use hamlyn_abi::family::command::{ULN_STATUS_BAD_VALUE, ULN_STATUS_DMA_FAULT};

use crate::ports::DmaFault;

/// A status, the wrong value and its limit, as the driver finds them in the command page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// `ULN_STATUS_*`.
    pub status: u32,
    /// The wrong value.
    pub value: u64,
    /// The limit.
    pub limit: u64,
}

impl Refusal {
    /// Creates a refusal with this status.
    #[must_use]
    pub fn new(status: u32, value: impl Into<u64>, limit: impl Into<u64>) -> Self {
        Self { status, value: value.into(), limit: limit.into() }
    }

    /// Checks that a reserved field is zero.
    pub fn unless_zero(reserved: u64) -> Result<(), Self> {
        if reserved == 0 { Ok(()) } else { Err(Self::new(ULN_STATUS_BAD_VALUE, reserved, 0_u32)) }
    }
}

impl From<DmaFault> for Refusal {
    fn from(fault: DmaFault) -> Self {
        Self::new(ULN_STATUS_DMA_FAULT, fault.address, fault.length)
    }
}
