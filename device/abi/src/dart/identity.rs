//! Identity of the DART card.

/// PCI device id of the DART card.
pub const DART_PCI_DEVICE: u16 = 0x4454;
/// Value of `ULN_REG_MODEL` for the DART card.
pub const DART_MODEL: u32 = 4;
/// Value of `ULN_REG_ABI_VERSION` for the DART card.
pub const DART_ABI_VERSION: u32 = 0x0001_0001;
