//! The card's counters, and the reasons for which it refuses.
//!
//! Counters are 64 bits wide, count from the card's start or reset, and are in the order of
//! [`Statistic`]. Those from `refused_flags` on count refusals. The reason of a refusal that is
//! reported to a terminus is the number of its counter.

use crate::counters::statistics;

/// Number of counters.
pub const HAMLYN_STATISTICS: u32 = 47;

statistics! {
    Statistic, HAMLYN_STATISTICS:
    /// Messages whose last packet was sent.
    MessagesSent = 0, "messages_sent";
    /// Packets sent.
    PacketsSent = 1, "packets_sent";
    /// Bytes of data and metadata sent.
    BytesSent = 2, "bytes_sent";
    /// Packets accepted and deposited.
    PacketsReceived = 3, "packets_received";
    /// Bytes of data and metadata deposited.
    BytesReceived = 4, "bytes_received";
    /// Messages completed, with or without a notification.
    MessagesReceived = 5, "messages_received";
    /// Notification queue entries written.
    Notifications = 6, "notifications";
    /// Interrupts raised for notifications, and for completed requests that a process slept on.
    Interrupts = 7, "interrupts";
    /// Interrupts not raised because one was pending.
    InterruptsCoalesced = 8, "interrupts_coalesced";
    /// Doorbells rung (trapped stores).
    Doorbells = 9, "doorbells";
    /// Times that a terminus or answers had to wait for a full link, or for a host that takes
    /// nothing.
    LinkStalls = 10, "link_stalls";
    /// Packets discarded because the card was not enabled (section 2.8).
    Discarded = 11, "discarded";
    /// Requests abandoned because their terminus was closed.
    Abandoned = 12, "abandoned";
    /// Commands executed.
    Commands = 13, "commands";
    /// Commands refused.
    CommandsRefused = 14, "commands_refused";
    /// Times that the host failed to restart the handshake timer (section 2.8).
    HandshakeLapses = 15, "handshake_lapses";
    /// Fetch-and-ops executed on this host's memory.
    Fetches = 16, "fetches";
    /// Accepted answers to this host's own fetch-and-ops.
    Answers = 17, "answers";

    /// Request: invalid flags or reserved fields.
    RefusedFlags = 18, "refused_flags";
    /// Request: destination host id over 65,535.
    RefusedDestination = 19, "refused_destination";
    /// Request: more data than its body holds, its tuples name, or an area can have.
    RefusedLength = 20, "refused_length";
    /// Request: more metadata than 60 bytes, or metadata in fast mode.
    RefusedMetadataLength = 21, "refused_metadata_length";
    /// Request: more tuples than the body holds.
    RefusedGatherCount = 22, "refused_gather_count";
    /// Request: a tag over 7, or a tag whose send buffer is not set.
    RefusedTag = 23, "refused_tag";
    /// Request: a tuple that reaches past the end of its send buffer.
    RefusedSendBuffer = 24, "refused_send_buffer";
    /// Request: fast mode and more than one packet.
    RefusedFastMode = 25, "refused_fast_mode";
    /// Request: the card could not read a send buffer's memory.
    RefusedSendDma = 26, "refused_send_dma";
    /// Request: a fetch-and-op of an unknown operation, of a length other than 16 bytes, or at an
    /// offset that is not a multiple of 8.
    RefusedOperation = 27, "refused_operation";
    /// Request: the destination's card refused the fetch-and-op, and counted the reason.
    RefusedByDestination = 28, "refused_by_destination";
    /// Request: the fetch-and-op was not answered.
    RefusedUnanswered = 29, "refused_unanswered";
    /// Terminus: its owner posted more requests than fit into the work queue.
    RefusedOverrun = 30, "refused_overrun";

    /// Packet: malformed header.
    RefusedPacket = 31, "refused_packet";
    /// Packet: slot number over the table.
    RefusedSlot = 32, "refused_slot";
    /// Packet: slot not open.
    RefusedClosedSlot = 33, "refused_closed_slot";
    /// Packet: wrong key.
    RefusedKey = 34, "refused_key";
    /// Packet: data would extend past the end of the message area.
    RefusedBounds = 35, "refused_bounds";
    /// Packet: metadata index over the slot's metadata area.
    RefusedMetadataIndex = 36, "refused_metadata_index";
    /// Packet: the metadata entry has a different key (paranoid modes).
    RefusedParanoidKey = 37, "refused_paranoid_key";
    /// Packet: data would be outside the metadata entry's own bounds (paranoid modes).
    RefusedParanoidBounds = 38, "refused_paranoid_bounds";
    /// Packet: the metadata entry has already received its message (paranoid one-shot mode).
    RefusedOneShot = 39, "refused_one_shot";
    /// Packet: fast mode into a slot in a paranoid mode, whose checks need a metadata entry.
    RefusedFastParanoid = 40, "refused_fast_paranoid";
    /// Packet: the card could not write host memory.
    RefusedReceiveDma = 41, "refused_receive_dma";
    /// Packet: a fetch-and-op into a slot that does not allow it.
    RefusedFetch = 42, "refused_fetch";
    /// Packet: a fetch-and-op on a word whose address is not a multiple of 8.
    RefusedFetchAddress = 43, "refused_fetch_address";
    /// Packet: a fetch-and-op from a host with as many unsent answers as a card may have termini.
    RefusedFetchOverrun = 44, "refused_fetch_overrun";
    /// Packet: an answer that no request waits for.
    RefusedAnswer = 45, "refused_answer";
    /// Packet: into a slot between operating systems, but from a process, from a host other than
    /// the slot's, or silent.
    RefusedPrivilege = 46, "refused_privilege";
}

impl Statistic {
    /// Returns the counter with this number, for a reason read from a terminus' status words.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Returns whether the counter counts a refusal.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        self as u32 >= Statistic::RefusedFlags as u32
    }
}
