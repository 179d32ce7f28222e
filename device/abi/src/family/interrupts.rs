//! A card's interrupts: MSI-X vectors. The first one is the link's.

/// WO. Self-test of interrupts: raises the MSI-X vector with the written number.
pub const ULN_REG_INTERRUPT_TEST: u32 = 0x018;
/// RO. Number of MSI-X vectors. Vector 0 reports link changes; the others are the model's.
pub const ULN_REG_VECTORS: u32 = 0x038;

/// MSI-X vector that reports a change of the link.
pub const ULN_VECTOR_LINK: u32 = 0;
/// Maximum number of MSI-X vectors of a card.
pub const ULN_MAX_VECTORS: u32 = 16;
