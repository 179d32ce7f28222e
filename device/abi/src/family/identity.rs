//! What a card of the family looks like on the PCI bus, and what it says of itself at the start of
//! BAR 0.
//!
//! Accesses to BAR 0 are 4 or 8 bytes wide, aligned.

/// PCI vendor id of the family. Not assigned by the PCI-SIG: it is the one QEMU uses for devices
/// that exist nowhere else.
pub const HAMLYN_PCI_VENDOR: u16 = 0x1234;
/// PCI class code: network controller, other.
pub const HAMLYN_PCI_CLASS: u32 = 0x028000;
/// PCI class code of a further function that takes posted stores: generic system peripheral, other.
pub const HAMLYN_PCI_DOORBELL_CLASS: u32 = 0x088000;

/// Size of BAR 0, in bytes.
pub const HAMLYN_REGISTERS_SIZE: u32 = 4096;

/// Value of [`HAMLYN_REG_MAGIC`]: the letters `HMLN`.
pub const HAMLYN_MAGIC: u32 = 0x4e4c_4d48;

/// RO. [`HAMLYN_MAGIC`].
pub const HAMLYN_REG_MAGIC: u32 = 0x000;
/// RO. Which card this is.
pub const HAMLYN_REG_MODEL: u32 = 0x004;
/// RO. The version of the model's contract that the card implements: major in the upper half
/// (incompatible changes), minor in the lower (additions).
pub const HAMLYN_REG_ABI_VERSION: u32 = 0x008;
/// RW. Self-test of register access: reads as the complement of what was written. So does every
/// doorbell, of either function: a driver can tell whether a second function is this card's.
pub const HAMLYN_REG_SCRATCH: u32 = 0x014;
/// RO. What the card is beyond its contract: [`HAMLYN_FEATURE_COHERENT`]. A card without this
/// register reads as 0.
pub const HAMLYN_REG_FEATURES: u32 = 0x05c;

/// Windows that a BAR maps are memory of the machine's host, which card and guest reach through one
/// coherent cache.
///
/// The driver maps them cached (write-back) then, and uncached otherwise. A card of hardware does
/// not set it: it sees a cached store when the line is evicted, and the guest never sees its stores
/// in a line that it has cached. Each side orders its accesses as between processors: a store that
/// publishes is a release, a load that looks for one is an acquire, and a full barrier stands
/// between a store and a load that must not pass it.
pub const HAMLYN_FEATURE_COHERENT: u32 = 1;
