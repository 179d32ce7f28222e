//! BAR 0: the echo card's own registers, among those of the family ([`crate::family`]).

/// RO. Number of mailboxes, 2 to [`ECHO_MAX_MAILBOXES`].
pub const ECHO_REG_MAILBOXES: u32 = 0x024;

/// Maximum number of mailboxes of a card: the control page has this many words.
pub const ECHO_MAX_MAILBOXES: u32 = 32;
/// The operating system's mailbox. It exchanges messages with those of other hosts only. So a
/// driver must not give it to a process.
pub const ECHO_SYSTEM_MAILBOX: u32 = 0;
/// MSI-X vector by which mailboxes wake their owners. The only other vector is the link's.
pub const ECHO_VECTOR: u32 = 1;
