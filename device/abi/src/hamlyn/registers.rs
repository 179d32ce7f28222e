//! BAR 0: the Hamlyn card's own registers, among those of the family ([`crate::family`]).

/// RO. The most user data a packet carries, in bytes (metadata comes on top). 256 to 65,536.
pub const HAMLYN_REG_PACKET_SIZE: u32 = 0x024;
/// RO. The card's SRAM, in bytes. What is open shares it ([`super::sram`]).
pub const HAMLYN_REG_SRAM_SIZE: u32 = 0x028;
/// RO. How many send termini have a number, and a window.
pub const HAMLYN_REG_TERMINI: u32 = 0x02c;
/// RO. How many slots have a number: as many as the SRAM holds while no terminus and no queue is
/// open.
pub const HAMLYN_REG_SLOTS: u32 = 0x030;
/// RO. How many notification queues have a number, and control words.
pub const HAMLYN_REG_QUEUES: u32 = 0x034;
/// RO. Bytes of the SRAM that are free. Since version 2.6.
pub const HAMLYN_REG_SRAM_FREE: u32 = 0x03c;
/// RO. Bytes of the longest free piece of the SRAM. Since version 2.6.
pub const HAMLYN_REG_SRAM_LONGEST: u32 = 0x060;

/// First MSI-X vector for notification queues and termini.
pub const HAMLYN_VECTOR_QUEUE: u32 = 1;
