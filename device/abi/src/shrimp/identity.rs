//! Identity of the SHRIMP card.

/// PCI device id of the SHRIMP card.
pub const SHRIMP_PCI_DEVICE: u16 = 0x5348;
/// Value of `ULN_REG_MODEL` for the SHRIMP card.
pub const SHRIMP_MODEL: u32 = 2;
/// Value of `ULN_REG_ABI_VERSION` for the SHRIMP card.
pub const SHRIMP_ABI_VERSION: u32 = 0x0001_0004;
