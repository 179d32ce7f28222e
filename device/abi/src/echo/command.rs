//! The echo card's commands, besides those that all cards have ([`crate::family::command`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::family::area::UlnArea;

/// Opens mailbox `index`. Body: [`EchoOpenMailbox`]. The driver must zero its outbox first.
pub const ECHO_COMMAND_OPEN_MAILBOX: u32 = 1;
/// Closes a mailbox. If a message in it still waits for the link, it is not sent.
pub const ECHO_COMMAND_CLOSE_MAILBOX: u32 = 2;

/// Minimum number of records in an inbox.
pub const ECHO_INBOX_MIN_RECORDS: u32 = 4;
/// Maximum number of records in an inbox.
pub const ECHO_INBOX_MAX_RECORDS: u32 = 1024;

/// Body of [`ECHO_COMMAND_OPEN_MAILBOX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EchoOpenMailbox {
    /// The inbox: `records` of [`crate::echo::inbox::EchoRecord`], all zero. No record crosses a
    /// page boundary.
    pub inbox: UlnArea,
    /// Number of records: a power of two from [`ECHO_INBOX_MIN_RECORDS`] to
    /// [`ECHO_INBOX_MAX_RECORDS`].
    pub records: u32,
    /// Zero.
    pub reserved: u32,
}
