//! The DART card's counters. They are 64 bits wide, count from the card's start or reset, and are
//! in the order of [`DartStatistic`].

use crate::counters::statistics;

/// Number of counters.
pub const DART_STATISTICS: u32 = 27;

statistics! {
    DartStatistic, DART_STATISTICS:
    /// Messages sent.
    MessagesSent = 0, "messages_sent";
    /// Answers sent.
    AnswersSent = 1, "answers_sent";
    /// Cells sent.
    CellsSent = 2, "cells_sent";
    /// Messages that were stored and not sent.
    MessagesDropped = 3, "messages_dropped";
    /// Times that a message had to wait for credits.
    CreditWaits = 4, "credit_waits";
    /// Packets accepted, of any kind.
    PacketsArrived = 5, "packets_arrived";
    /// Messages and answers executed.
    Executed = 6, "executed";
    /// Primitives executed.
    Primitives = 7, "primitives";
    /// Bytes written to endpoints.
    BytesDeposited = 8, "bytes_deposited";
    /// Bytes read from endpoints for answers.
    BytesRead = 9, "bytes_read";
    /// Messages for the software.
    Exceptions = 10, "exceptions";
    /// Traps: the card does not implement the operation.
    TrapsUnimplemented = 11, "traps_unimplemented";
    /// Traps: a register outside of the window.
    TrapsIndex = 12, "traps_index";
    /// Traps: refused by the message's own comparison.
    TrapsRefused = 13, "traps_refused";
    /// Traps: the connection does not have the right.
    TrapsRight = 14, "traps_right";
    /// Traps: the address is not a multiple of 4.
    TrapsMisaligned = 15, "traps_misaligned";
    /// Traps: outside of the endpoint.
    TrapsBounds = 16, "traps_bounds";
    /// Traps: the memory does not exist.
    TrapsNoMemory = 17, "traps_no_memory";
    /// Pages that were not found in the TLB.
    Misses = 18, "misses";
    /// Records written to queues.
    Records = 19, "records";
    /// Times that a message had to wait for a place in a queue.
    QueueWaits = 20, "queue_waits";
    /// Interrupts raised for the FIFO.
    Interrupts = 21, "interrupts";
    /// Packets discarded: the card is not enabled, or has no such connection with that host.
    Discarded = 22, "discarded";
    /// Connections that were broken.
    Broken = 23, "broken";
    /// Commands executed.
    Commands = 24, "commands";
    /// Commands refused.
    CommandsRefused = 25, "commands_refused";
    /// Times that the host failed to restart the handshake timer.
    HandshakeLapses = 26, "handshake_lapses";
}
