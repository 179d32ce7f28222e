//! The SHRIMP card's counters. They are 64 bits wide, count from the card's start or reset, and are
//! in the order of [`ShrimpStatistic`].

use crate::counters::statistics;

/// Number of counters.
pub const SHRIMP_STATISTICS: u32 = 30;

statistics! {
    ShrimpStatistic, SHRIMP_STATISTICS:
    /// Stores to mapped-out pages, seen on the host's bus.
    StoresSeen = 0, "stores_seen";
    /// Stores to window pages that were executed.
    StoresToWindow = 1, "stores_to_window";
    /// Stores to window pages that are not mapped out, or that the Outgoing FIFO or host memory did
    /// not accept.
    StoresRefused = 2, "stores_refused";
    /// Stores that were merged into the packet of the store before.
    StoresMerged = 3, "stores_merged";
    /// Packets sent.
    PacketsSent = 4, "packets_sent";
    /// Bytes of data in packets sent.
    BytesSent = 5, "bytes_sent";
    /// Deliberate updates started.
    TransfersStarted = 6, "transfers_started";
    /// Deliberate updates completed.
    TransfersDone = 7, "transfers_done";
    /// Deliberate updates ended early: the mapping or the host memory has gone.
    TransfersCut = 8, "transfers_cut";
    /// Deliberate updates refused: the part is not mapped out for that or has fewer words, or too
    /// many transfers wait.
    TransfersRefused = 9, "transfers_refused";
    /// Stores to command pages by which a processor wrote back after a failed compare.
    WritesBack = 10, "writes_back";
    /// Other commands by command pages, executed.
    CommandsMapped = 11, "commands_mapped";
    /// Other commands by command pages, refused.
    CommandsMappedRefused = 12, "commands_mapped_refused";
    /// Packets deposited.
    PacketsDeposited = 13, "packets_deposited";
    /// Bytes deposited.
    BytesDeposited = 14, "bytes_deposited";
    /// Packets refused: the page, or the part of it, is not mapped in for their host.
    NotMappedIn = 15, "not_mapped_in";
    /// Packets refused: they are for another node of the mesh.
    WrongNode = 16, "wrong_node";
    /// Packets refused: wrong checksum.
    BadChecksum = 17, "bad_checksum";
    /// Packets refused: not a SHRIMP card's packet, or it crosses the end of a page.
    Malformed = 18, "malformed";
    /// Packets not deposited: the card is not enabled, or host memory is not accessible.
    Discarded = 19, "discarded";
    /// Arrivals reported.
    Arrivals = 20, "arrivals";
    /// Arrivals not reported because a record for the same page was untaken.
    ArrivalsCoalesced = 21, "arrivals_coalesced";
    /// Interrupts raised for arrivals.
    Interrupts = 22, "interrupts";
    /// Times that the Outgoing FIFO reached its threshold.
    OutgoingFull = 23, "outgoing_full";
    /// Times that the Incoming FIFO reached its threshold.
    IncomingFull = 24, "incoming_full";
    /// Commands executed.
    Commands = 25, "commands";
    /// Commands refused.
    CommandsRefused = 26, "commands_refused";
    /// Times that the host failed to restart the handshake timer.
    HandshakeLapses = 27, "handshake_lapses";
    /// Packets of stores and transfers that were discarded, because their host had kept the
    /// Outgoing FIFO at its threshold and is cut off.
    PacketsCutOff = 28, "packets_cut_off";
    /// Writes to [`super::registers::SHRIMP_REG_HOLD`] refused, because this host has stopped the
    /// network before.
    HoldsRefused = 29, "holds_refused";
}
