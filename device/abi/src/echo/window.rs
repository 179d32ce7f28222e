//! BAR 2 has an outbox of one page for each mailbox, then the control page. BAR 4 has the
//! doorbells.
//!
//! To send, the owner of a mailbox fills in `destination`, `mailbox`, `length` and the data, and
//! then stores any value to the doorbell. The card reads the outbox once, copies the message out,
//! and stores the result in `result` and then the count in `sent`. Until `sent` has changed, the
//! outbox belongs to the card; the card counts further rings and ignores them.

/// Distance between two mailboxes' outboxes, in bytes.
pub const ECHO_OUTBOX_SIZE: u32 = 4096;
/// Distance between two mailboxes' doorbells in BAR 4, in bytes. A store to the first 8 bytes rings
/// the doorbell.
pub const ECHO_DOORBELL_SIZE: u32 = 4096;

/// In an outbox, u32, stored by its owner: the destination host.
pub const ECHO_OUTBOX_DESTINATION: u32 = 0x000;
/// In an outbox, u32, stored by its owner: the mailbox on that host.
pub const ECHO_OUTBOX_MAILBOX: u32 = 0x004;
/// In an outbox, u32, stored by its owner: bytes of the message, 0 to [`ECHO_MAX_MESSAGE`].
pub const ECHO_OUTBOX_LENGTH: u32 = 0x008;
/// In an outbox, u32, stored by its owner: number of messages that it has taken from its inbox,
/// modulo 2^32.
pub const ECHO_OUTBOX_TAKEN: u32 = 0x00c;
/// In an outbox, u64, stored by its owner as two words: the key that the message carries.
pub const ECHO_OUTBOX_KEY: u32 = 0x010;
/// In an outbox, u64, stored by its owner as two words: the key that a message to this mailbox must
/// carry; 0: none. The card drops and counts other messages.
pub const ECHO_OUTBOX_LOCK: u32 = 0x018;
/// In an outbox, u32, stored by the card: number of rings that it has completed, modulo 2^32.
pub const ECHO_OUTBOX_SENT: u32 = 0x040;
/// In an outbox, u32, stored by the card before `sent`: result of the last ring, `ECHO_RESULT_*`.
pub const ECHO_OUTBOX_RESULT: u32 = 0x044;
/// In an outbox: offset of the message's bytes.
pub const ECHO_OUTBOX_DATA: u32 = 0x080;

/// The longest message, in bytes.
pub const ECHO_MAX_MESSAGE: u32 = 1008;

/// Result: the message has been sent.
pub const ECHO_RESULT_SENT: u32 = 0;
/// Result: `length` is over [`ECHO_MAX_MESSAGE`]; nothing was sent.
pub const ECHO_RESULT_BAD_LENGTH: u32 = 1;
/// Result: `destination` is not a valid host id; nothing was sent.
pub const ECHO_RESULT_BAD_HOST: u32 = 2;

/// Size of the control page, which follows the last outbox, in bytes.
pub const ECHO_CONTROL_SIZE: u32 = 4096;
/// In the control page: a word for each mailbox, `ULN_ARMED_*`, one every `ULN_ARMED_STRIDE`
/// bytes.
pub const ECHO_CONTROL_ARMED: u32 = 0x000;
/// In the control page: a word for each vector, one every `ULN_PENDING_STRIDE` bytes. 1: its
/// interrupt is pending.
pub const ECHO_CONTROL_PENDING: u32 = 0x800;
