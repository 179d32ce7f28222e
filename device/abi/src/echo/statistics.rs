//! The echo card's counters. They are 64 bits wide, count from the card's start or reset, and are
//! in the order of [`EchoStatistic`].

use crate::counters::statistics;

/// Number of counters.
pub const ECHO_STATISTICS: u32 = 14;

statistics! {
    EchoStatistic, ECHO_STATISTICS:
    /// Messages sent.
    Sent = 0, "messages_sent";
    /// Messages deposited.
    Received = 1, "messages_received";
    /// Stores to doorbells.
    Doorbells = 2, "doorbells";
    /// Interrupts raised for messages.
    Interrupts = 3, "interrupts";
    /// Interrupts not raised because one was pending.
    InterruptsCoalesced = 4, "interrupts_coalesced";
    /// Commands executed.
    Commands = 5, "commands";
    /// Commands refused.
    CommandsRefused = 6, "commands_refused";
    /// Times that the host failed to restart the handshake timer.
    HandshakeLapses = 7, "handshake_lapses";
    /// Rings of a mailbox that is not open, or whose last message has not left yet.
    RefusedRings = 8, "refused_rings";
    /// Messages not sent: the outbox is invalid.
    RefusedMessages = 9, "refused_messages";
    /// Packets not deposited: the card is not enabled, the packet is not an echo card's, or host
    /// memory is not accessible.
    Discarded = 10, "discarded";
    /// Packets not deposited: the mailbox does not exist.
    NoMailbox = 11, "no_mailbox";
    /// Packets not deposited: the inbox is full.
    InboxFull = 12, "inbox_full";
    /// Packets not deposited: the message does not carry the mailbox's key, or is a process'
    /// message to an operating system.
    Refused = 13, "refused";
}
