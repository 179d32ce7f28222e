//! Store indirect with postincrement: a log in another host's memory.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use hamlyn::dart::programs::{Appender, Log};

use crate::call::{Failure, call, given, store};
use crate::dart::connection::dart_connection;

/// A log in an endpoint, entries of one length behind each other, to which many append: which
/// registers of the window it is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_log {
    /// The register that says where the next entry goes.
    pub tail: u8,
    /// The register that is an entry's length.
    pub step: u8,
    /// The register that says where the log ends.
    pub end: u8,
}

fn read(log: Option<&dart_log>) -> Result<Log, Failure> {
    let dart_log { tail, step, end } = *given(log, "log")?;
    Ok(Log { tail, step, end })
}

/// Sets a log's registers for `entries` entries of `length` bytes, a multiple of 4 up to 32, from
/// byte `start` of the endpoint on: by its owner, with any connection that has them in its window,
/// before anybody appends.
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

/// How many bytes of entries a log has that begins at byte `start`: what is there of them has been
/// written.
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

/// Appends an entry of `length` bytes, that of dart_log_set, to a log at the connection's other
/// end: the bytes of this end's endpoint from byte `from` on. It is one message, executed at one
/// moment, so that no two entries have the same place. If the log is full it is refused, which
/// dart_connection_status tells, and any question that is asked behind it. It fails as dart_send
/// does, without waiting.
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
