//! Identity of the Hamlyn card.

/// PCI device id of the Hamlyn card.
pub const HAMLYN_PCI_DEVICE: u16 = 0x4841;
/// PCI device id of the Hamlyn card's second function. Its BAR 0 holds the doorbells a second time.
/// It has no mappable memory, so QEMU posts the stores to it, and a doorbell costs no round trip.
pub const HAMLYN_PCI_DOORBELL: u16 = 0x4844;

/// Value of `ULN_REG_MODEL` for the Hamlyn card.
pub const HAMLYN_MODEL: u32 = 1;
/// Value of `ULN_REG_ABI_VERSION` for the Hamlyn card.
pub const HAMLYN_ABI_VERSION: u32 = 0x0002_0006;
