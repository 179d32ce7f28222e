//! Identity of the echo card.

/// PCI device id of the echo card.
pub const ECHO_PCI_DEVICE: u16 = 0x4543;
/// Value of `ULN_REG_MODEL` for the echo card. It is the last number, because the first ones are
/// for published cards.
pub const ECHO_MODEL: u32 = 13;
/// Value of `ULN_REG_ABI_VERSION` for the echo card.
pub const ECHO_ABI_VERSION: u32 = 0x0002_0000;
