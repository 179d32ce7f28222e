//! Store indirect with postincrement: a log in another host's memory.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::dart::programs::{Appender, Log};

use crate::call::{Failure, call, given, store};
use crate::dart::connection::dart_connection;

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

fn read(log: Option<&dart_log>) -> Result<Log, Failure> {
    let dart_log { tail, step, end } = *given(log, "log")?;
    Ok(Log { tail, step, end })
}

/// Sets a log's registers for `entries` entries of `length` bytes, a multiple of 4 up to 32, from
/// byte `start` of the endpoint. The owner must call this before any process appends, with any
/// connection that has the registers in its window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_log_set(
    connection: Option<&dart_connection>,
    log: Option<&dart_log>,
    start: u64,
    length: u32,
    entries: u64,
) -> c_int {
    call(|| {
        let connection = &given(connection, "connection")?.0;
        Ok(read(log)?.set(connection, start, length, entries).map(|()| 0)?)
    })
}

/// Stores the number of bytes of entries in a log that begins at byte `start`. These entries are
/// completely written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_log_written(
    connection: Option<&dart_connection>,
    log: Option<&dart_log>,
    start: u64,
    written: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (connection, to) = (&given(connection, "connection")?.0, given(written, "written")?);
        store(to, read(log)?.written(connection, start)?)
    })
}

/// Appends an entry to a log at the connection's other end: `length` bytes, as given to
/// dart_log_set, of this end's endpoint from byte `from`. An append is one message, executed
/// atomically, so two entries never have the same place. If the log is full, the entry is refused:
/// dart_connection_status reports it, and so does any question sent after it. Fails like dart_send,
/// without waiting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_append(
    connection: Option<&dart_connection>,
    log: Option<&dart_log>,
    length: u32,
    from: u64,
) -> c_int {
    call(|| {
        let connection = given(connection, "connection")?.0.clone();
        Ok(Appender::new(connection, read(log)?, length).append(from).map(|()| 0)?)
    })
}
