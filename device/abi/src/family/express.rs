//! Express memory: what two hosts share, and nobody else. A PCI function of its own shows it,
//! beside a card of any model.
//!
//! The function has one BAR, index 0, 64 bits wide and prefetchable. Its first page has the
//! registers below, which are trapped; elsewhere lie *parts*: one for each other host, mapped
//! memory, the same bytes as that host's part for this one. What lies between parts is not there:
//! reads give zero, stores do nothing. What a part is used for is the operating systems' to arrange
//! ([`crate::kernel::express`]).
//!
//! A card may have several such functions, each with parts for other hosts: then each part is a
//! file of its own.

/// PCI device id of a function with express memory, of a card of any model.
pub const HAMLYN_PCI_EXPRESS: u16 = 0x4845;
/// PCI class code of such a function: memory controller, other.
pub const HAMLYN_PCI_EXPRESS_CLASS: u32 = 0x058000;

/// Value of [`HAMLYN_EXPRESS_REG_MAGIC`]: the letters `HEXP`.
pub const HAMLYN_EXPRESS_MAGIC: u32 = 0x5058_4548;
/// Value of [`HAMLYN_EXPRESS_REG_VERSION`]: major in the upper half (incompatible changes), minor
/// in the lower (additions).
pub const HAMLYN_EXPRESS_VERSION: u32 = 0x0001_0000;

/// RO, 4 bytes. [`HAMLYN_EXPRESS_MAGIC`].
pub const HAMLYN_EXPRESS_REG_MAGIC: u32 = 0x000;
/// RO, 4 bytes. [`HAMLYN_EXPRESS_VERSION`].
pub const HAMLYN_EXPRESS_REG_VERSION: u32 = 0x004;
/// RO, 4 bytes. The host id that the parts are this side's of. It never changes: if the card comes
/// to another port of its switch, the memory is of no use.
pub const HAMLYN_EXPRESS_REG_HOST: u32 = 0x008;
/// RO, 4 bytes. Host ids that there may be parts for are below it, at most
/// [`HAMLYN_EXPRESS_HOSTS`].
pub const HAMLYN_EXPRESS_REG_HOSTS: u32 = 0x00c;
/// RO, 8 bytes. Bytes of each part: a power of two from [`HAMLYN_EXPRESS_LEAST_PART`] to
/// [`HAMLYN_EXPRESS_MOST_PART`].
pub const HAMLYN_EXPRESS_REG_PART: u32 = 0x010;
/// RO, 8 bytes. Which memory it is: a number from a random source, never 0. Two hosts share a part
/// if theirs are the same.
pub const HAMLYN_EXPRESS_REG_MEMORY: u32 = 0x018;
/// RO, 4 bytes. The complement of what was last written to the card's `HAMLYN_REG_SCRATCH`: so a
/// driver can tell whose it is.
pub const HAMLYN_EXPRESS_REG_SCRATCH: u32 = 0x020;
/// RO, 8 bytes for each host id: where in the BAR the part for that host begins, a multiple of
/// 4,096, or 0: there is none here.
pub const HAMLYN_EXPRESS_REG_PARTS: u32 = 0x100;

/// Bytes of the registers, at the beginning of the BAR.
pub const HAMLYN_EXPRESS_REGISTERS_SIZE: u32 = 4096;
/// The most hosts that express memory may be for.
pub const HAMLYN_EXPRESS_HOSTS: u32 = 64;
/// The smallest part, in bytes.
pub const HAMLYN_EXPRESS_LEAST_PART: u32 = 0x1_0000;
/// The largest part, in bytes.
pub const HAMLYN_EXPRESS_MOST_PART: u32 = 0x1000_0000;
