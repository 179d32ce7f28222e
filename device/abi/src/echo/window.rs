//! BAR 2: an outbox of one page for each mailbox, then the control page; and the doorbells in BAR
//! 4.
//!
//! The owner of a mailbox fills in `destination`, `mailbox`, `length` and the data, and then rings:
//! stores anything to the doorbell. The card looks once, copies the message out, and says so in
//! `result` and then in `sent`. Until `sent` has moved the outbox is the card's: another ring is
//! counted, and does nothing.

/// Distance between two mailboxes' outboxes, in bytes.
pub const ECHO_OUTBOX_SIZE: u32 = 4096;
/// Distance between two mailboxes' doorbells in BAR 4, in bytes. A store to the first 8 bytes
/// rings.
pub const ECHO_DOORBELL_SIZE: u32 = 4096;

/// In an outbox, u32, stored by its owner: the host that the message is for.
pub const ECHO_OUTBOX_DESTINATION: u32 = 0x000;
/// In an outbox, u32, stored by its owner: the mailbox there.
pub const ECHO_OUTBOX_MAILBOX: u32 = 0x004;
/// In an outbox, u32, stored by its owner: bytes of the message, 0 to [`ECHO_MAX_MESSAGE`].
pub const ECHO_OUTBOX_LENGTH: u32 = 0x008;
/// In an outbox, u32, stored by its owner: how many messages it has taken out of its inbox, modulo
/// 2^32.
pub const ECHO_OUTBOX_TAKEN: u32 = 0x00c;
/// In an outbox, u32, stored by the card: how many rings it is done with, modulo 2^32.
pub const ECHO_OUTBOX_SENT: u32 = 0x040;
/// In an outbox, u32, stored by the card before `sent`: what came of the last one, `ECHO_RESULT_*`.
pub const ECHO_OUTBOX_RESULT: u32 = 0x044;
/// In an outbox: where the message's bytes begin.
pub const ECHO_OUTBOX_DATA: u32 = 0x080;

/// The longest message, in bytes.
pub const ECHO_MAX_MESSAGE: u32 = 1008;

/// Result: the message is on its way.
pub const ECHO_RESULT_SENT: u32 = 0;
/// Result: `length` is over [`ECHO_MAX_MESSAGE`]; nothing was sent.
pub const ECHO_RESULT_BAD_LENGTH: u32 = 1;
/// Result: `destination` is no host id that a switch can have; nothing was sent.
pub const ECHO_RESULT_BAD_HOST: u32 = 2;

/// Size of the control page, which follows the last outbox, in bytes.
pub const ECHO_CONTROL_SIZE: u32 = 4096;
/// In the control page: a word for each mailbox, `HAMLYN_ARMED_*`, one every `HAMLYN_ARMED_STRIDE`
/// bytes.
pub const ECHO_CONTROL_ARMED: u32 = 0x000;
/// In the control page: a word for each vector, one every `HAMLYN_PENDING_STRIDE` bytes. 1: its
/// interrupt is on its way.
pub const ECHO_CONTROL_PENDING: u32 = 0x800;
