//! Store indirect with postincrement: a log in another host's memory.

use hamlyn::dart::programs::{Appender, Log};

use crate::dart::connection::dart_connection;
use crate::exported::{Out, exported};

/// The registers of the window that form a log: consecutive entries of equal length in an endpoint,
/// to which many senders append.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_log {
    /// The register with the offset of the next entry.
    pub tail: u8,
    /// The register with the length of an entry.
    pub step: u8,
    /// The register with the offset of the log's end.
    pub end: u8,
}

impl dart_log {
    fn read(self) -> Log {
        let Self { tail, step, end } = self;
        Log { tail, step, end }
    }
}

exported! {
/// Sets a log's registers for `entries` entries of `length` bytes, a multiple of 4 up to 32, from
/// byte `start` of the endpoint. The owner must call this before any process appends, with any
/// connection that has the registers in its window.
fn dart_log_set(connection: &dart_connection, log: &dart_log, start: u64, length: u32, entries: u64) {
    log.read().set(&connection.0, start, length, entries)?
}

/// Stores the number of bytes of entries in a log that begins at byte `start`. These entries are
/// completely written.
fn dart_log_written(connection: &dart_connection, log: &dart_log, start: u64, written: Out<u64>) {
    written.store(log.read().written(&connection.0, start)?)
}

/// Appends an entry to a log at the connection's other end: `length` bytes, as given to
/// dart_log_set, of this end's endpoint from byte `from`. An append is one message, executed
/// atomically, so two entries never have the same place. If the log is full, the entry is refused:
/// dart_connection_status reports it, and so does any question sent after it. Fails like dart_send,
/// without waiting.
fn dart_append(connection: &dart_connection, log: &dart_log, length: u32, from: u64) {
    let connection = connection.0.clone();
    Appender::new(connection, log.read(), length).append(from)?
}
}
