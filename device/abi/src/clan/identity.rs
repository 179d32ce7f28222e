//! Identity of the CLAN card.

/// PCI device id of the CLAN card.
pub const CLAN_PCI_DEVICE: u16 = 0x434c;
/// Value of `ULN_REG_MODEL` for the CLAN card.
pub const CLAN_MODEL: u32 = 3;
/// Value of `ULN_REG_ABI_VERSION` for the CLAN card.
pub const CLAN_ABI_VERSION: u32 = 0x0001_0000;
