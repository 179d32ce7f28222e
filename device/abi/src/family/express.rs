//! Express memory: memory that two hosts share, and no other host. A PCI function of its own
//! exposes it, next to a card of any model.
//!
//! The function has one BAR, index 0, 64 bits wide and prefetchable. Its first page has the
//! registers below, which are trapped. The rest holds *parts*, one for each other host. A part is
//! mapped memory with the same bytes as that host's part for this one. Addresses between parts are
//! unused: reads return zero, stores have no effect. The operating systems arrange what a part is
//! used for ([`crate::kernel::express`]).
//!
//! A card may have several such functions, each with parts for other hosts. In that case each part
//! is a separate file.

/// PCI device id of a function with express memory, for a card of any model.
pub const ULN_PCI_EXPRESS: u16 = 0x4845;
/// PCI class code of such a function: memory controller, other.
pub const ULN_PCI_EXPRESS_CLASS: u32 = 0x058000;

/// Value of [`ULN_EXPRESS_REG_MAGIC`]: the letters `HEXP`.
pub const ULN_EXPRESS_MAGIC: u32 = 0x5058_4548;
/// Value of [`ULN_EXPRESS_REG_VERSION`]. The major version (incompatible changes) is in the
/// upper half, the minor version (additions) in the lower.
pub const ULN_EXPRESS_VERSION: u32 = 0x0001_0000;

/// RO, 4 bytes. [`ULN_EXPRESS_MAGIC`].
pub const ULN_EXPRESS_REG_MAGIC: u32 = 0x000;
/// RO, 4 bytes. [`ULN_EXPRESS_VERSION`].
pub const ULN_EXPRESS_REG_VERSION: u32 = 0x004;
/// RO, 4 bytes. The host id that this side has in the parts. It never changes. If the card moves to
/// another port of its switch, the memory is useless.
pub const ULN_EXPRESS_REG_HOST: u32 = 0x008;
/// RO, 4 bytes. Upper bound of the host ids that parts can exist for, at most
/// [`ULN_EXPRESS_HOSTS`].
pub const ULN_EXPRESS_REG_HOSTS: u32 = 0x00c;
/// RO, 8 bytes. Size of each part in bytes: a power of two from [`ULN_EXPRESS_LEAST_PART`] to
/// [`ULN_EXPRESS_MOST_PART`].
pub const ULN_EXPRESS_REG_PART: u32 = 0x010;
/// RO, 8 bytes. Identifies the memory: a random number, never 0. Two hosts share a part if their
/// numbers are equal.
pub const ULN_EXPRESS_REG_MEMORY: u32 = 0x018;
/// RO, 4 bytes. The complement of the last value written to the card's `ULN_REG_SCRATCH`, so
/// that a driver can tell which card the function belongs to.
pub const ULN_EXPRESS_REG_SCRATCH: u32 = 0x020;
/// RO, 8 bytes for each host id: offset in the BAR of the part for that host, a multiple of 4,096;
/// 0 if it has no part here.
pub const ULN_EXPRESS_REG_PARTS: u32 = 0x100;

/// Bytes of the registers, at the beginning of the BAR.
pub const ULN_EXPRESS_REGISTERS_SIZE: u32 = 4096;
/// Maximum number of hosts with express memory.
pub const ULN_EXPRESS_HOSTS: u32 = 64;
/// The smallest part, in bytes.
pub const ULN_EXPRESS_LEAST_PART: u32 = 0x1_0000;
/// The largest part, in bytes.
pub const ULN_EXPRESS_MOST_PART: u32 = 0x1000_0000;
