//! BAR 0: the Hamlyn card's own registers, among those of the family ([`crate::family`]).

/// RO. The most user data a packet carries, in bytes (metadata comes on top). 256 to 65,536.
pub const HAMLYN_REG_PACKET_SIZE: u32 = 0x024;
/// RO. The card's SRAM, in bytes; the tables below share it.
pub const HAMLYN_REG_SRAM_SIZE: u32 = 0x028;
/// RO. How many send termini there are.
pub const HAMLYN_REG_TERMINI: u32 = 0x02c;
/// RO. How many slots there are.
pub const HAMLYN_REG_SLOTS: u32 = 0x030;
/// RO. How many notification queues there are.
pub const HAMLYN_REG_QUEUES: u32 = 0x034;

/// First MSI-X vector for notification queues and termini.
pub const HAMLYN_VECTOR_QUEUE: u32 = 1;
