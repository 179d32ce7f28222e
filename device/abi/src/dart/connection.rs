//! A connection (section 3): its page of BAR 2, and the memory in which the card reports its state.
//!
//! The Send Registers keep what was stored to them, so a message like the last one takes one store.

/// Send Register, u64: opcode, mask and indices, as in [`super::control::DartControl`].
pub const DART_SEND_CONTROL: u32 = 0x00;
/// Send Register, u64: the operand.
pub const DART_SEND_OPERAND: u32 = 0x08;
/// Send Register, u64: offset of the data from the endpoint's base.
pub const DART_SEND_OFFSET: u32 = 0x10;
/// Send Register, u32: bytes of data. Storing it sends the message. The limit is [`DART_LONGEST`]
/// for a [`super::control::DART_MAIN_WRITE_MULTIPLE`], a CALL that asks nothing, an EXCEPTION, and
/// a message unknown to the card. For all others it is a block; the rest of the block is 0.
pub const DART_SEND_LENGTH: u32 = 0x18;
/// Send Register, u64: bytes of data in the lower [`DART_SEND_DATA_SHIFT`] bits, and their offset
/// in the others. Storing it sets [`DART_SEND_OFFSET`] and sends the message, with one store
/// instead of two. Cards of ABI version 1.1 and later have it.
pub const DART_SEND_DATA: u32 = 0x20;
/// Number of bits of the length in [`DART_SEND_DATA`].
pub const DART_SEND_DATA_SHIFT: u32 = 24;
/// Address register 0 of the connection's window, u64, for loads and stores. The other registers
/// follow it. Registers that do not exist load as ones.
pub const DART_PAGE_REGISTERS: u32 = 0x800;
/// Bytes of a connection's page.
pub const DART_PAGE_SIZE: u32 = 4096;

/// Connection numbers are below this, because a cell's header has no space for larger ones.
pub const DART_NUMBERS: u32 = 0x1000_0000;
/// The smallest window of a card, in cells. A connection uses no more than this until the other end
/// has reported its own window.
pub const DART_SMALLEST_WINDOW: u32 = 2048;
/// Maximum number of address registers in a connection's window.
pub const DART_MAX_REGISTERS: u32 = 256;
/// Maximum bytes of data in a message.
pub const DART_LONGEST: u32 = 65504;
/// Maximum number of messages of a connection that wait to leave.
pub const DART_MAX_SENDS: u32 = 64;

/// u32, stored by the card: number of messages that have left or never will, modulo 2^32. They are
/// counted in the order of their stores.
pub const DART_STATE_LEFT: u32 = 0x00;
/// u32: number of them that were dropped, because the connection is broken, they were invalid, or
/// there was no space for them.
pub const DART_STATE_DROPPED: u32 = 0x04;
/// u32: why the last of these was dropped, `DART_DROPPED_*`.
pub const DART_STATE_DROPPED_WHY: u32 = 0x08;
/// u32: number of messages that had a trap at the receiver, modulo 2^32. The card writes it after
/// the other words about a trap.
pub const DART_STATE_TRAPS: u32 = 0x0c;
/// u32: the last trap, `DART_TRAP_*`.
pub const DART_STATE_TRAP: u32 = 0x10;
/// u32: the opcode of that message.
pub const DART_STATE_TRAP_OPCODE: u32 = 0x14;
/// u32: 0, or why the connection is broken, `DART_BROKEN_*`.
pub const DART_STATE_BROKEN: u32 = 0x18;
/// u32: number of exceptions at this end that no queue took, modulo 2^32. The card writes it last,
/// after trap and opcode.
pub const DART_STATE_EXCEPTIONS: u32 = 0x1c;
/// u32: the last of these exceptions, `DART_TRAP_*`.
pub const DART_STATE_EXCEPTION: u32 = 0x20;
/// u32: the opcode of that message.
pub const DART_STATE_EXCEPTION_OPCODE: u32 = 0x24;
/// Bytes of the state. Its address is a multiple of this.
pub const DART_STATE_SIZE: u32 = 64;

/// Dropped: the length exceeds the limit of the opcode.
pub const DART_DROPPED_LENGTH: u32 = 1;
/// Dropped: the data is not inside the endpoint, or the memory does not exist.
pub const DART_DROPPED_MEMORY: u32 = 2;
/// Dropped: the maximum number of messages was waiting.
pub const DART_DROPPED_ROOM: u32 = 3;
/// Dropped: the connection is broken.
pub const DART_DROPPED_BROKEN: u32 = 4;

/// Broken: a packet has been lost.
pub const DART_BROKEN_LOST: u32 = 1;
/// Broken: the link is down.
pub const DART_BROKEN_LINK: u32 = 2;
/// Broken: the peer has violated the protocol, or sent more than it may.
pub const DART_BROKEN_PEER: u32 = 3;
/// Broken: memory that the driver has named cannot be accessed.
pub const DART_BROKEN_MEMORY: u32 = 4;
/// Broken: the other end has been closed, or its host is lost.
pub const DART_BROKEN_GONE: u32 = 5;
