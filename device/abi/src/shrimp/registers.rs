//! Registers of the SHRIMP card, in BAR 0, besides those that all cards have.

/// RO. Entries of the page table (NIPT): one for each page of the host's memory, from address 0.
pub const SHRIMP_REG_PAGES: u32 = 0x100;
/// RO. Columns of the backplane's mesh: host `n` is at column `n` modulo this, and row `n` divided
/// by it (section 3.1).
pub const SHRIMP_REG_COLUMNS: u32 = 0x104;
/// RO. Size of each of the two FIFOs, in bytes (section 4).
pub const SHRIMP_REG_FIFO: u32 = 0x108;
/// RW. Threshold of the Outgoing FIFO, in bytes, at which the processor is interrupted (section 4):
/// 1 to [`SHRIMP_REG_FIFO`].
pub const SHRIMP_REG_OUT_THRESHOLD: u32 = 0x10c;
/// RW. Threshold of the Incoming FIFO, in bytes, at which the card accepts nothing more from the
/// network: 1 to [`SHRIMP_REG_FIFO`].
pub const SHRIMP_REG_IN_THRESHOLD: u32 = 0x110;
/// RO. Bytes in the Outgoing FIFO.
pub const SHRIMP_REG_OUT_FILL: u32 = 0x114;
/// RO. Bytes in the Incoming FIFO.
pub const SHRIMP_REG_IN_FILL: u32 = 0x118;
/// RW. Time after a store in which the next one may go into the same packet (blocked-write, section
/// 4.1), in microseconds: 0 to [`SHRIMP_MAX_MERGE_TIME`].
pub const SHRIMP_REG_MERGE_TIME: u32 = 0x11c;
/// RW. 1: arriving packets stay in the Incoming FIFO until this is 0 again. The card clears it when
/// the FIFO has been full for 5 seconds. It then stays 0 for 300 seconds, also across a reset. 0 at
/// power-on.
pub const SHRIMP_REG_HOLD: u32 = 0x120;
/// RO. 1 if the card sees the stores of this host's processors on their bus. 0 if they must be made
/// through its window ([`super::memory`]).
pub const SHRIMP_REG_SNOOPS: u32 = 0x124;
/// WO. Number of records of the arrival queue that the driver has taken, modulo 2^32
/// ([`super::arrival`]).
pub const SHRIMP_REG_ARRIVALS_TAKEN: u32 = 0x128;
/// RO, 8 bytes. Hosts that are cut off, bit `n` for host `n`: the card discards stores for them. A
/// cut-off lasts 60 seconds. The card cuts a host off when it has kept the Outgoing FIFO at its
/// threshold for 3 seconds, in sum. The host must also have taken less than its share of a
/// sixteenth of [`SHRIMP_REG_FIFO`] bytes meanwhile. It is cut off sooner after another host was,
/// and when an access has waited for it for 4 seconds. [`SHRIMP_VECTOR_OUTGOING`] is raised.
pub const SHRIMP_REG_CUT_OFF: u32 = 0x130;

/// Maximum value of [`SHRIMP_REG_MERGE_TIME`].
pub const SHRIMP_MAX_MERGE_TIME: u32 = 1_000_000;

/// MSI-X vector that reports arrivals: there are new records in the arrival queue.
pub const SHRIMP_VECTOR_ARRIVAL: u32 = 1;
/// MSI-X vector that reports that the Outgoing FIFO has reached its threshold. It is raised again
/// after the FIFO has been down to half of the threshold. It also reports that a host is cut off
/// ([`SHRIMP_REG_CUT_OFF`]).
pub const SHRIMP_VECTOR_OUTGOING: u32 = 2;
