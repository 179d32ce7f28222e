//! BAR 0: the Hamlyn card's own registers, among those of the family ([`crate::family`]).

/// RO. Maximum user data in a packet, in bytes, without metadata. 256 to 65,536.
pub const HAMLYN_REG_PACKET_SIZE: u32 = 0x024;
/// RO. Size of the card's SRAM, in bytes. All open objects share it ([`super::sram`]).
pub const HAMLYN_REG_SRAM_SIZE: u32 = 0x028;
/// RO. Number of send terminus numbers and windows.
pub const HAMLYN_REG_TERMINI: u32 = 0x02c;
/// RO. Number of slot numbers: as many as the SRAM can hold while no terminus and no queue is open.
pub const HAMLYN_REG_SLOTS: u32 = 0x030;
/// RO. Number of notification queue numbers and control words.
pub const HAMLYN_REG_QUEUES: u32 = 0x034;
/// RO. Free bytes of the SRAM. Since version 2.6.
pub const HAMLYN_REG_SRAM_FREE: u32 = 0x03c;
/// RO. Bytes of the longest free block of the SRAM. Since version 2.6.
pub const HAMLYN_REG_SRAM_LONGEST: u32 = 0x060;

/// First MSI-X vector for notification queues and termini.
pub const HAMLYN_VECTOR_QUEUE: u32 = 1;
