//! Identity of a card on the PCI bus, and in the first registers of BAR 0.
//!
//! Accesses to BAR 0 are 4 or 8 bytes wide, aligned.

/// PCI vendor id of the family. The PCI-SIG has not assigned it. QEMU uses it for devices that
/// exist nowhere else.
pub const ULN_PCI_VENDOR: u16 = 0x1234;
/// PCI class code: network controller, other.
pub const ULN_PCI_CLASS: u32 = 0x028000;
/// PCI class code of an additional function that takes posted stores: generic system peripheral,
/// other.
pub const ULN_PCI_DOORBELL_CLASS: u32 = 0x088000;

/// Size of BAR 0, in bytes.
pub const ULN_REGISTERS_SIZE: u32 = 4096;

/// Value of [`ULN_REG_MAGIC`]: the letters `HMLN`.
pub const ULN_MAGIC: u32 = 0x4e4c_4d48;

/// RO. [`ULN_MAGIC`].
pub const ULN_REG_MAGIC: u32 = 0x000;
/// RO. Model of the card.
pub const ULN_REG_MODEL: u32 = 0x004;
/// RO. Version of the model's contract that the card implements. The major version (incompatible
/// changes) is in the upper half, the minor version (additions) in the lower.
pub const ULN_REG_ABI_VERSION: u32 = 0x008;
/// RW. Self-test of register access. Returns the complement of the last value written. So does
/// every doorbell of either function, which tells a driver whether a second function belongs to
/// this card.
pub const ULN_REG_SCRATCH: u32 = 0x014;
/// RO. Features of the card beyond its contract: [`ULN_FEATURE_COHERENT`]. A card without this
/// register reads as 0.
pub const ULN_REG_FEATURES: u32 = 0x05c;

/// Windows that a BAR maps are memory of the machine's host. Card and guest access them through one
/// coherent cache.
///
/// If the bit is set, the driver maps them cached (write-back), otherwise uncached. A hardware card
/// does not set it. It sees a cached store only when the line is evicted. The guest never sees the
/// card's stores in a line that it has cached. Each side orders its accesses as between processors.
/// A store that publishes is a release, and a load that looks for one is an acquire. A full barrier
/// stands between a store and a load that must not pass it.
pub const ULN_FEATURE_COHERENT: u32 = 1;
