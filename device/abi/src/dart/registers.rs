//! Registers of the DART card, in BAR 0, beside those that all cards have.

/// RO. How many connections there can be.
pub const DART_REG_CONNECTIONS: u32 = 0x100;
/// RO. How many endpoints there can be.
pub const DART_REG_ENDPOINTS: u32 = 0x104;
/// RO. How many address registers there are.
pub const DART_REG_REGISTERS: u32 = 0x108;
/// RO. How many entries all programs together can have.
pub const DART_REG_PROGRAM: u32 = 0x10c;
/// RO. How many queues there can be.
pub const DART_REG_QUEUES: u32 = 0x110;
/// RO. How many translations the TLB has.
pub const DART_REG_TLB: u32 = 0x114;
/// RO. How many cells a connection may have on their way.
pub const DART_REG_WINDOW: u32 = 0x118;
/// WO. How many records of the FIFO the driver has taken, modulo 2^32 ([`super::fifo`]).
pub const DART_REG_FIFO_TAKEN: u32 = 0x120;
/// WO, 8 bytes. Somebody sleeps on a queue: its number in the lower half, and in the upper how many
/// records they have taken, modulo 2^32. If there are more, or as soon as there are, the queue is
/// put into the FIFO, once.
pub const DART_REG_ARM: u32 = 0x128;
/// WO, 8 bytes. Somebody sleeps until messages of a connection have left: its number in the lower
/// half, and in the upper how many have, as they know. If it is another number, or as soon as it
/// is, the connection is put into the FIFO, once.
pub const DART_REG_ARM_LEFT: u32 = 0x130;
/// WO, 8 bytes. Which address space the next three are about; each keeps what was stored.
pub const DART_REG_TLB_SPACE: u32 = 0x140;
/// WO, 8 bytes. Virtual address of a page.
pub const DART_REG_TLB_PAGE: u32 = 0x148;
/// WO, 8 bytes. Storing it says where that page is on the bus, and `DART_FRAME_*`.
pub const DART_REG_TLB_FILL: u32 = 0x150;
/// RW, 8 bytes. Storing it takes the translations of so many pages back, from that page on. When a
/// load, which answers 0, is answered nothing is reached by them any more.
pub const DART_REG_TLB_INVALIDATE: u32 = 0x158;

/// In [`DART_REG_TLB_FILL`]: it may be written to; with [`DART_FRAME_NONE`], it may not, and
/// perhaps be read.
pub const DART_FRAME_WRITABLE: u64 = 1;
/// In [`DART_REG_TLB_FILL`]: there is no such page.
pub const DART_FRAME_NONE: u64 = 2;

/// MSI-X vector that says that there are new records in the FIFO.
pub const DART_VECTOR_FIFO: u32 = 1;
