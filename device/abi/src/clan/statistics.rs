//! The CLAN card's counters. They are 64 bits wide, count from the card's start or reset, and are
//! in the order of [`ClanStatistic`].

use crate::counters::statistics;

/// Number of counters.
pub const CLAN_STATISTICS: u32 = 34;

statistics! {
    ClanStatistic, CLAN_STATISTICS:
    /// Stores to windows that were accepted.
    StoresToWindow = 0, "stores_to_window";
    /// Stores to windows that were refused: outside of the window or of any window, or lost because
    /// there was no space.
    StoresRefused = 1, "stores_refused";
    /// Stores that were joined to the packet of the store before.
    StoresJoined = 2, "stores_joined";
    /// Loads from windows: remote reads.
    LoadsFromWindow = 3, "loads_from_window";
    /// Loads from windows that returned ones at once: outside of any window, or too many loads were
    /// pending.
    LoadsRefused = 4, "loads_refused";
    /// Remote reads that were refused or not answered in time.
    ReadsFailed = 5, "reads_failed";
    /// Packets sent, of any kind.
    PacketsSent = 6, "packets_sent";
    /// Bytes of data in write packets sent.
    BytesSent = 7, "bytes_sent";
    /// Packets accepted, of any kind.
    PacketsArrived = 8, "packets_arrived";
    /// Bytes written to apertures for other hosts.
    BytesDeposited = 9, "bytes_deposited";
    /// Packets that were written to memory in one burst with the packet before.
    PacketsJoined = 10, "packets_joined";
    /// Remote reads that were answered with data.
    ReadsServed = 11, "reads_served";
    /// Packets refused: the aperture does not exist, or has another key.
    RefusedAperture = 12, "refused_aperture";
    /// Packets refused: the aperture does not allow the access.
    RefusedAccess = 13, "refused_access";
    /// Packets refused: they reach beyond the aperture.
    RefusedRange = 14, "refused_range";
    /// Packets refused: wrong checksum.
    BadChecksum = 15, "bad_checksum";
    /// Packets refused: not a CLAN card's packet.
    Malformed = 16, "malformed";
    /// Packets discarded: the card is not enabled, host memory is not accessible, or no read waits
    /// for the answer.
    Discarded = 17, "discarded";
    /// Packets refused: their host exceeds its credits for data or reads.
    OverCredit = 18, "over_credit";
    /// Times that a packet had to wait for credits.
    CreditWaits = 19, "credit_waits";
    /// Faults reported to endpoints.
    Faults = 20, "faults";
    /// DMA requests completed.
    RequestsDone = 21, "requests_done";
    /// DMA requests that failed or were skipped.
    RequestsFailed = 22, "requests_failed";
    /// Tripwires enabled or disabled.
    TripwiresSet = 23, "tripwires_set";
    /// Stores to endpoints' pages that were refused.
    TripwiresRefused = 24, "tripwires_refused";
    /// Times that Tripwires fired.
    TripwiresFired = 25, "tripwires_fired";
    /// Records written to event queues.
    Events = 26, "events";
    /// Events of a source that still had an untaken record.
    EventsCoalesced = 27, "events_coalesced";
    /// Records written to the FIFO.
    FifoRecords = 28, "fifo_records";
    /// Interrupts raised for the FIFO.
    Interrupts = 29, "interrupts";
    /// Commands executed.
    Commands = 30, "commands";
    /// Commands refused.
    CommandsRefused = 31, "commands_refused";
    /// Times that the host failed to restart the handshake timer.
    HandshakeLapses = 32, "handshake_lapses";
    /// Copies of writes to groups that a member lost because it took too little.
    CopiesLost = 33, "copies_lost";
}
