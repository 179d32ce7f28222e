//! The echo card's operations, beside those that all cards have ([`crate::family::command`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::family::area::HamlynArea;

/// Open a mailbox: `index` is its number. Body: [`EchoOpenMailbox`]. The driver has made its outbox
/// zero.
pub const ECHO_COMMAND_OPEN_MAILBOX: u32 = 1;
/// Close a mailbox. A message that still waits in it for the link is not sent.
pub const ECHO_COMMAND_CLOSE_MAILBOX: u32 = 2;

/// The fewest records of an inbox.
pub const ECHO_INBOX_MIN_RECORDS: u32 = 4;
/// The most records of an inbox.
pub const ECHO_INBOX_MAX_RECORDS: u32 = 1024;

/// Body of [`ECHO_COMMAND_OPEN_MAILBOX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EchoOpenMailbox {
    /// The inbox: `records` of [`crate::echo::inbox::EchoRecord`], all zero, and none of them in
    /// two pages.
    pub inbox: HamlynArea,
    /// Records, [`ECHO_INBOX_MIN_RECORDS`] to [`ECHO_INBOX_MAX_RECORDS`], a power of two.
    pub records: u32,
    /// Zero.
    pub reserved: u32,
}
