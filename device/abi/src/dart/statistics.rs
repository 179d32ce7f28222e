//! The DART card's counters. They are 64 bits wide, count from the card's start or reset, and stand
//! in the order of [`DartStatistic`].

/// How many counters there are.
pub const DART_STATISTICS: u32 = 27;

macro_rules! statistics {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// A counter of the card.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum DartStatistic { $($(#[$doc])* $variant = $number,)* }

        impl DartStatistic {
            /// The counters' names, in order, as `hamlyn stat` prints them.
            pub const NAMES: [&str; DART_STATISTICS as usize] = [$($name,)*];
        }
    };
}

statistics! {
    /// Messages that have left.
    MessagesSent = 0, "messages_sent";
    /// Answers that have left.
    AnswersSent = 1, "answers_sent";
    /// Cells that have left.
    CellsSent = 2, "cells_sent";
    /// Messages that were stored and did not leave.
    MessagesDropped = 3, "messages_dropped";
    /// How often a message had to wait for credits.
    CreditWaits = 4, "credit_waits";
    /// Packets taken, of any kind.
    PacketsArrived = 5, "packets_arrived";
    /// Messages and answers that were executed.
    Executed = 6, "executed";
    /// Primitives that were executed.
    Primitives = 7, "primitives";
    /// Bytes written to endpoints.
    BytesDeposited = 8, "bytes_deposited";
    /// Bytes read from endpoints for answers.
    BytesRead = 9, "bytes_read";
    /// Messages for the software.
    Exceptions = 10, "exceptions";
    /// Traps: the card has no such operation.
    TrapsUnimplemented = 11, "traps_unimplemented";
    /// Traps: a register outside of the window.
    TrapsIndex = 12, "traps_index";
    /// Traps: refused by their own comparison.
    TrapsRefused = 13, "traps_refused";
    /// Traps: what the connection may not do.
    TrapsRight = 14, "traps_right";
    /// Traps: an address that is no multiple of 4.
    TrapsMisaligned = 15, "traps_misaligned";
    /// Traps: outside of the endpoint.
    TrapsBounds = 16, "traps_bounds";
    /// Traps: there is no memory.
    TrapsNoMemory = 17, "traps_no_memory";
    /// Pages that were looked for and not found in the TLB.
    Misses = 18, "misses";
    /// Records written to queues.
    Records = 19, "records";
    /// How often a message had to wait for a place in a queue.
    QueueWaits = 20, "queue_waits";
    /// Interrupts raised for the FIFO.
    Interrupts = 21, "interrupts";
    /// Packets not taken: the card takes no part, or there is no such connection with that host.
    Discarded = 22, "discarded";
    /// Connections that were broken.
    Broken = 23, "broken";
    /// Commands carried out.
    Commands = 24, "commands";
    /// Commands refused.
    CommandsRefused = 25, "commands_refused";
    /// How often the host failed to keep the handshake.
    HandshakeLapses = 26, "handshake_lapses";
}

impl From<DartStatistic> for usize {
    #[inline]
    fn from(statistic: DartStatistic) -> Self {
        statistic as usize
    }
}
