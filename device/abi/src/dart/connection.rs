//! A connection (section 3): its page of BAR 2, and the memory in which the card says how it fares.
//!
//! The Send Registers keep what was stored to them, so that the next message like the last takes a
//! store.

/// Send Register, u64: opcode, mask and indices, as in [`super::control::DartControl`].
pub const DART_SEND_CONTROL: u32 = 0x00;
/// Send Register, u64: the operand.
pub const DART_SEND_OPERAND: u32 = 0x08;
/// Send Register, u64: where the data is, from the endpoint's base.
pub const DART_SEND_OFFSET: u32 = 0x10;
/// Send Register, u32: bytes of data. Storing it sends: up to [`DART_LONGEST`] of a
/// [`super::control::DART_MAIN_WRITE_MULTIPLE`], of a CALL that asks nothing, of an EXCEPTION and
/// of what the card does not know; of all others up to a block, whose rest is 0.
pub const DART_SEND_LENGTH: u32 = 0x18;
/// Address register 0 of the connection's window, u64, to be loaded and stored; the others are
/// behind it. Those that there are not load as ones.
pub const DART_PAGE_REGISTERS: u32 = 0x800;
/// Bytes of a connection's page.
pub const DART_PAGE_SIZE: u32 = 4096;

/// Connections have numbers below this: a cell's header has room for no larger ones.
pub const DART_NUMBERS: u32 = 0x1000_0000;
/// The smallest window of a card, in cells: a connection uses no more of it before the other end
/// has said its own.
pub const DART_SMALLEST_WINDOW: u32 = 2048;
/// The most address registers of a connection's window.
pub const DART_MAX_REGISTERS: u32 = 256;
/// The most bytes of data of a message.
pub const DART_LONGEST: u32 = 65504;
/// How many messages of a connection can wait to leave.
pub const DART_MAX_SENDS: u32 = 64;

/// u32, stored by the card: how many messages have left, or will not, modulo 2^32: of those that
/// were stored first.
pub const DART_STATE_LEFT: u32 = 0x00;
/// u32: how many of them have not left: the connection is broken, or they make no sense, or there
/// was no room for them.
pub const DART_STATE_DROPPED: u32 = 0x04;
/// u32: why the last of these was dropped, `DART_DROPPED_*`.
pub const DART_STATE_DROPPED_WHY: u32 = 0x08;
/// u32, written last of what is known of a trap: how many messages had one at the receiver, modulo
/// 2^32.
pub const DART_STATE_TRAPS: u32 = 0x0c;
/// u32: the last of them, `DART_TRAP_*`.
pub const DART_STATE_TRAP: u32 = 0x10;
/// u32: that message's opcode.
pub const DART_STATE_TRAP_OPCODE: u32 = 0x14;
/// u32: 0, or why the connection is broken, `DART_BROKEN_*`.
pub const DART_STATE_BROKEN: u32 = 0x18;
/// u32: exceptions of this end that no queue took, modulo 2^32. The card writes it last, behind
/// trap and opcode.
pub const DART_STATE_EXCEPTIONS: u32 = 0x1c;
/// u32: the last of them, `DART_TRAP_*`.
pub const DART_STATE_EXCEPTION: u32 = 0x20;
/// u32: that message's opcode.
pub const DART_STATE_EXCEPTION_OPCODE: u32 = 0x24;
/// Bytes of it; where it is, is a multiple of that.
pub const DART_STATE_SIZE: u32 = 64;

/// The length is more than the opcode takes.
pub const DART_DROPPED_LENGTH: u32 = 1;
/// The data is not inside the endpoint, or there is no such memory.
pub const DART_DROPPED_MEMORY: u32 = 2;
/// As many messages waited as can.
pub const DART_DROPPED_ROOM: u32 = 3;
/// The connection is broken.
pub const DART_DROPPED_BROKEN: u32 = 4;

/// A packet has been lost.
pub const DART_BROKEN_LOST: u32 = 1;
/// The link is down.
pub const DART_BROKEN_LINK: u32 = 2;
/// The peer has sent what makes no sense, or more than it may.
pub const DART_BROKEN_PEER: u32 = 3;
/// Memory that the driver has named cannot be reached.
pub const DART_BROKEN_MEMORY: u32 = 4;
/// The other end has been closed, or its host is lost.
pub const DART_BROKEN_GONE: u32 = 5;
