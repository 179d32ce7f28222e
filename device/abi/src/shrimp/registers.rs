//! Registers of the SHRIMP card, in BAR 0, beside those that all cards have.

/// RO. Entries of the page table (NIPT): one for each page of the host's memory, from address 0.
pub const SHRIMP_REG_PAGES: u32 = 0x100;
/// RO. Columns of the backplane's mesh: host `n` is at column `n` modulo this, and row `n` divided
/// by it (section 3.1).
pub const SHRIMP_REG_COLUMNS: u32 = 0x104;
/// RO. Bytes that each of the two FIFOs holds (section 4).
pub const SHRIMP_REG_FIFO: u32 = 0x108;
/// RW. Bytes in the Outgoing FIFO at which the processor is interrupted (section 4): 1 to
/// [`SHRIMP_REG_FIFO`].
pub const SHRIMP_REG_OUT_THRESHOLD: u32 = 0x10c;
/// RW. Bytes in the Incoming FIFO at which the card takes nothing more from the network: 1 to
/// [`SHRIMP_REG_FIFO`].
pub const SHRIMP_REG_IN_THRESHOLD: u32 = 0x110;
/// RO. Bytes in the Outgoing FIFO.
pub const SHRIMP_REG_OUT_FILL: u32 = 0x114;
/// RO. Bytes in the Incoming FIFO.
pub const SHRIMP_REG_IN_FILL: u32 = 0x118;
/// RW. How long after a store the next may still go into the same packet (blocked-write, section
/// 4.1), in microseconds: 0 to [`SHRIMP_MAX_MERGE_TIME`].
pub const SHRIMP_REG_MERGE_TIME: u32 = 0x11c;
/// RW. 1: what arrives stays in the Incoming FIFO until this is 0 again, which it becomes by itself
/// when that has been full for 5 seconds. It stays 0 for 300 seconds then, also over a reset. At
/// power-on 0.
pub const SHRIMP_REG_HOLD: u32 = 0x120;
/// RO. 1 if the card sees the stores of this host's processors on their bus; 0 if it has to be told
/// of them by its window ([`super::memory`]).
pub const SHRIMP_REG_SNOOPS: u32 = 0x124;
/// WO. How many records of the arrival queue the driver has taken, modulo 2^32
/// ([`super::arrival`]).
pub const SHRIMP_REG_ARRIVALS_TAKEN: u32 = 0x128;
/// RO, 8 bytes. Hosts that are cut off, bit `n` for host `n`: what is stored for them goes nowhere.
/// A host is cut off for 60 seconds when it has kept the Outgoing FIFO at its threshold for 3
/// seconds, in sum, and has taken less than its share of a sixteenth of [`SHRIMP_REG_FIFO`] bytes
/// meanwhile; sooner after another was cut off; and when an access has waited for it for 4 seconds.
/// [`SHRIMP_VECTOR_OUTGOING`] is raised.
pub const SHRIMP_REG_CUT_OFF: u32 = 0x130;

/// The longest time of [`SHRIMP_REG_MERGE_TIME`].
pub const SHRIMP_MAX_MERGE_TIME: u32 = 1_000_000;

/// MSI-X vector that reports arrivals: there are new records in the arrival queue.
pub const SHRIMP_VECTOR_ARRIVAL: u32 = 1;
/// MSI-X vector that reports that the Outgoing FIFO has reached its threshold. It is raised again
/// after the FIFO has been down to half of that. Also: a host is cut off ([`SHRIMP_REG_CUT_OFF`]).
pub const SHRIMP_VECTOR_OUTGOING: u32 = 2;
