//! Contract between driver and library for echo cards: calls on an open `/dev/echoN`, besides those
//! of all cards.
//!
//! Errors besides those of all calls: `ENOSPC` (all mailboxes are open).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::echo::identity::ECHO_MODEL;
use crate::uapi::{CardArgument, CardQuery, UlnObject, card_call};

/// Opens a mailbox. Argument: [`EchoMailbox`].
pub const ECHO_IOC_MAILBOX_OPEN: u32 = card_call::<EchoMailbox>(ECHO_MODEL, 0);
/// Closes a mailbox. Argument: [`UlnObject`].
pub const ECHO_IOC_MAILBOX_CLOSE: u32 = card_call::<UlnObject>(ECHO_MODEL, 1);
/// Sleeps until a message has arrived. Argument: [`EchoWait`]. Fails with `ETIMEDOUT`, or with
/// `EINTR` if a signal handler has run.
pub const ECHO_IOC_MAILBOX_WAIT: u32 = card_call::<EchoWait>(ECHO_MODEL, 2);

/// Index into `UlnShareQuery`: mailboxes.
pub const ECHO_SHARE_MAILBOXES: u32 = 0;

/// What an echo card reports about itself: the card's part of `UlnQuery`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EchoQuery {
    /// Out: mailboxes that processes can have.
    pub mailboxes: u32,
    /// Zero.
    pub reserved: u32,
}

impl CardQuery for EchoQuery {
    const MODEL: u32 = ECHO_MODEL;
}

/// A new mailbox, and where to map its parts with `mmap(2)` of the same file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EchoMailbox {
    /// In: number of records of the inbox: a power of two from 4 to 1,024. Its memory counts
    /// against `RLIMIT_MEMLOCK`.
    pub records: u32,
    /// Out: the mailbox's number.
    pub mailbox: u32,
    /// Out: offset of the outbox, 4,096 bytes, to be mapped readable and writable, shared.
    pub outbox_offset: u64,
    /// Out: offset of the doorbell, 4,096 bytes, to be mapped writable, shared.
    pub doorbell_offset: u64,
    /// Out: offset of the inbox, a record's size times `records`, to be mapped read-only, shared.
    pub inbox_offset: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// Argument of [`ECHO_IOC_MAILBOX_WAIT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EchoWait {
    /// In: the mailbox.
    pub mailbox: u32,
    /// In: number of messages that the caller has taken; it waits for the next.
    pub taken: u32,
    /// In: time-out in nanoseconds, 0 to return at once, or -1 for no time-out.
    pub timeout_ns: i64,
}

impl CardArgument for EchoMailbox {}
impl CardArgument for EchoWait {}
