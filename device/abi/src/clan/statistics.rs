//! The CLAN card's counters. They are 64 bits wide, count from the card's start or reset, and stand
//! in the order of [`ClanStatistic`].

/// How many counters there are.
pub const CLAN_STATISTICS: u32 = 34;

macro_rules! statistics {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// A counter of the card.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum ClanStatistic { $($(#[$doc])* $variant = $number,)* }

        impl ClanStatistic {
            /// The counters' names, in order, as `hamlyn stat` prints them.
            pub const NAMES: [&str; CLAN_STATISTICS as usize] = [$($name,)*];
        }
    };
}

statistics! {
    /// Stores to windows that were taken.
    StoresToWindow = 0, "stores_to_window";
    /// Stores to windows that were refused: outside of the window or of any, or lost for want of
    /// room.
    StoresRefused = 1, "stores_refused";
    /// Stores that went into the packet of the one before.
    StoresJoined = 2, "stores_joined";
    /// Loads from windows: remote reads.
    LoadsFromWindow = 3, "loads_from_window";
    /// Loads from windows that read as ones at once: outside of any window, or too many wait.
    LoadsRefused = 4, "loads_refused";
    /// Remote reads that were refused, or not answered in time.
    ReadsFailed = 5, "reads_failed";
    /// Packets sent, of any kind.
    PacketsSent = 6, "packets_sent";
    /// Bytes of data in write packets sent.
    BytesSent = 7, "bytes_sent";
    /// Packets taken, of any kind.
    PacketsArrived = 8, "packets_arrived";
    /// Bytes written to apertures for other hosts.
    BytesDeposited = 9, "bytes_deposited";
    /// Packets that were written to memory in the burst of the one before.
    PacketsJoined = 10, "packets_joined";
    /// Remote reads that were answered with data.
    ReadsServed = 11, "reads_served";
    /// Packets refused: there is no such aperture, or not under that key.
    RefusedAperture = 12, "refused_aperture";
    /// Packets refused: the aperture does not allow that.
    RefusedAccess = 13, "refused_access";
    /// Packets refused: they reach beyond the aperture.
    RefusedRange = 14, "refused_range";
    /// Packets refused: their checksum is wrong.
    BadChecksum = 15, "bad_checksum";
    /// Packets refused: they are no CLAN card's.
    Malformed = 16, "malformed";
    /// Packets not taken: the card takes no part, or host memory is not there, or no read waits for
    /// the answer.
    Discarded = 17, "discarded";
    /// Packets refused: their host sends or asks more than it may.
    OverCredit = 18, "over_credit";
    /// How often a packet had to wait for credits.
    CreditWaits = 19, "credit_waits";
    /// Faults that were told to endpoints.
    Faults = 20, "faults";
    /// DMA requests done.
    RequestsDone = 21, "requests_done";
    /// DMA requests that failed, or were skipped.
    RequestsFailed = 22, "requests_failed";
    /// Tripwires enabled or disabled.
    TripwiresSet = 23, "tripwires_set";
    /// Stores to endpoints' pages that were refused.
    TripwiresRefused = 24, "tripwires_refused";
    /// How often Tripwires have fired.
    TripwiresFired = 25, "tripwires_fired";
    /// Records written to event queues.
    Events = 26, "events";
    /// Events of a source that had a record which was not taken.
    EventsCoalesced = 27, "events_coalesced";
    /// Records written to the FIFO.
    FifoRecords = 28, "fifo_records";
    /// Interrupts raised for the FIFO.
    Interrupts = 29, "interrupts";
    /// Commands carried out.
    Commands = 30, "commands";
    /// Commands refused.
    CommandsRefused = 31, "commands_refused";
    /// How often the host failed to keep the handshake.
    HandshakeLapses = 32, "handshake_lapses";
    /// Copies of writes to groups that a member lost, as it takes too little.
    CopiesLost = 33, "copies_lost";
}

impl From<ClanStatistic> for usize {
    #[inline]
    fn from(statistic: ClanStatistic) -> Self {
        statistic as usize
    }
}
