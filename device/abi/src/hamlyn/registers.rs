//! BAR 0: the registers behind the identity registers of [`crate::card`]. Accesses are 4 or 8 bytes wide, aligned.

/// Size of BAR 0, in bytes.
pub const HAMLYN_REGISTERS_SIZE: u32 = 4096;

/// RW. Control bits: [`HAMLYN_CONTROL_ENABLE`]. Writing [`HAMLYN_CONTROL_RESET`] resets the card.
pub const HAMLYN_REG_CONTROL: u32 = 0x020;
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
/// RO. How many MSI-X vectors there are. Vector 0 reports link changes; the others serve notification queues.
pub const HAMLYN_REG_VECTORS: u32 = 0x038;
/// RW, 8 bytes. Where in host memory the command page lies: 4,096-byte aligned.
pub const HAMLYN_REG_COMMAND_PAGE: u32 = 0x040;
/// WO. Any value: run the command in the command page. The write completes when the command has.
pub const HAMLYN_REG_COMMAND_GO: u32 = 0x048;
/// RO. Status of the last command, also when the command page itself could not be reached.
pub const HAMLYN_REG_COMMAND_STATUS: u32 = 0x04c;
/// RO. The handshake timer's period, in milliseconds (section 2.8); 0: the card has none.
pub const HAMLYN_REG_HANDSHAKE_TIMEOUT: u32 = 0x050;
/// WO. Any value: restarts the handshake timer. If the host fails to for a whole period, [`HAMLYN_CONTROL_ENABLE`] is
/// cleared: the card discards what arrives until the host sets it again.
pub const HAMLYN_REG_HANDSHAKE: u32 = 0x054;
/// RO. How many ports the switch has: host ids are below it. 0 while the link is down, or if the switch does not say.
pub const HAMLYN_REG_PORTS: u32 = 0x058;

/// The card takes part in the fabric. Until it is set, and once the handshake timer has run out, the card discards
/// every arriving packet (section 2.8).
pub const HAMLYN_CONTROL_ENABLE: u32 = 1;
/// Reset the card: every terminus, slot and queue is closed and the enable bit cleared.
pub const HAMLYN_CONTROL_RESET: u32 = 2;

/// MSI-X vector that reports a change of the link.
pub const HAMLYN_VECTOR_LINK: u32 = 0;
/// First MSI-X vector for notification queues.
pub const HAMLYN_VECTOR_QUEUE: u32 = 1;
/// The most MSI-X vectors a card may have.
pub const HAMLYN_MAX_VECTORS: u32 = 16;
