//! Registers of the DART card, in BAR 0, besides those that all cards have.

/// RO. Number of connections.
pub const DART_REG_CONNECTIONS: u32 = 0x100;
/// RO. Number of endpoints.
pub const DART_REG_ENDPOINTS: u32 = 0x104;
/// RO. Number of address registers.
pub const DART_REG_REGISTERS: u32 = 0x108;
/// RO. Number of entries of all programs together.
pub const DART_REG_PROGRAM: u32 = 0x10c;
/// RO. Number of queues.
pub const DART_REG_QUEUES: u32 = 0x110;
/// RO. Number of translations in the TLB.
pub const DART_REG_TLB: u32 = 0x114;
/// RO. Number of cells that a connection may have in flight.
pub const DART_REG_WINDOW: u32 = 0x118;
/// WO. Number of FIFO records that the driver has taken, modulo 2^32 ([`super::fifo`]).
pub const DART_REG_FIFO_TAKEN: u32 = 0x120;
/// WO, 8 bytes. A process sleeps on a queue. The lower half is the queue's number; the upper half
/// is the number of records the process has taken, modulo 2^32. If there are more, or as soon as
/// there are, the card puts the queue into the FIFO, once.
pub const DART_REG_ARM: u32 = 0x128;
/// WO, 8 bytes. A process sleeps until messages of a connection have left. The lower half is the
/// connection's number; the upper half is the number that has left, as the process knows it. If the
/// number differs, or as soon as it does, the card puts the connection into the FIFO, once.
pub const DART_REG_ARM_LEFT: u32 = 0x130;
/// WO, 8 bytes. The address space that the next three registers apply to. Each of these registers
/// keeps what was stored.
pub const DART_REG_TLB_SPACE: u32 = 0x140;
/// WO, 8 bytes. Virtual address of a page.
pub const DART_REG_TLB_PAGE: u32 = 0x148;
/// WO, 8 bytes. Reports the bus address of that page, and `DART_FRAME_*`.
pub const DART_REG_TLB_FILL: u32 = 0x150;
/// RW, 8 bytes. A store of `n` invalidates the translations of `n` pages, from that page on. Once a
/// load, which returns 0, has completed, the card no longer uses these translations.
pub const DART_REG_TLB_INVALIDATE: u32 = 0x158;

/// In [`DART_REG_TLB_FILL`]: the page is writable. With [`DART_FRAME_NONE`]: it is not writable,
/// but may be readable.
pub const DART_FRAME_WRITABLE: u64 = 1;
/// In [`DART_REG_TLB_FILL`]: the page does not exist.
pub const DART_FRAME_NONE: u64 = 2;

/// MSI-X vector for new records in the FIFO.
pub const DART_VECTOR_FIFO: u32 = 1;
