//! A card's interrupts: MSI-X vectors, of which the first is the link's.

/// WO. Self-test of interrupts: raises the MSI-X vector whose number is written.
pub const HAMLYN_REG_INTERRUPT_TEST: u32 = 0x018;
/// RO. How many MSI-X vectors there are. Vector 0 reports link changes; the others are the model's.
pub const HAMLYN_REG_VECTORS: u32 = 0x038;

/// MSI-X vector that reports a change of the link.
pub const HAMLYN_VECTOR_LINK: u32 = 0;
/// The most MSI-X vectors a card may have.
pub const HAMLYN_MAX_VECTORS: u32 = 16;
