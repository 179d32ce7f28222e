//! BAR 0: the echo card's own registers, among those of the family ([`crate::family`]).

/// RO. How many mailboxes there are, 1 to [`ECHO_MAX_MAILBOXES`].
pub const ECHO_REG_MAILBOXES: u32 = 0x024;

/// The most mailboxes a card may have: one control page has words for so many.
pub const ECHO_MAX_MAILBOXES: u32 = 32;
/// MSI-X vector by which mailboxes wake their owners. There are no others, but for the link's.
pub const ECHO_VECTOR: u32 = 1;
