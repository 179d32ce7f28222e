//! The owner of a mailbox, and messages in flight and in an inbox.

use std::collections::VecDeque;

/// A message, or arbitrary bytes from a hostile host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) packet: Vec<u8>,
    /// A port has gone down since, and may have dropped it.
    pub(super) excused: bool,
}

/// Returns the packet of a message.
pub(super) fn packet(to: u32, from: u32, data: &[u8]) -> Vec<u8> {
    [&to.to_le_bytes(), &from.to_le_bytes(), data].concat()
}

/// A message in an inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deposited {
    pub(super) source: u32,
    pub(super) mailbox: u32,
    pub(super) data: Vec<u8>,
}

/// An owner.
#[derive(Debug, Default)]
pub(super) struct Owner {
    pub(super) mailbox: u32,
    /// Number of rings, modulo 2^32.
    pub(super) rung: u32,
    /// Numbers of messages deposited and taken, modulo 2^32.
    pub(super) arrived: u32,
    pub(super) taken: u32,
    /// Messages in the inbox.
    pub(super) inbox: VecDeque<Deposited>,
    /// Messages to send, each with its destination host and mailbox.
    pub(super) plans: VecDeque<(u32, u32, Vec<u8>)>,
    /// The message that the card has yet to send.
    pub(super) rung_for: Option<Letter>,
    pub(super) asleep: bool,
}
