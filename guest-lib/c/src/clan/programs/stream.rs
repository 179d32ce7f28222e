//! Ordered byte streams.

use std::ffi::c_void;

use hamlyn::clan::programs::stream::{Reader, Writer};

use super::end::clan_end;
use crate::call::Failure;
use crate::clan::events::clan_events;
use crate::exported::{Out, exported};
use crate::memory::{bytes, bytes_mut};

/// Writes bytes, by a distributed queue whose elements are bytes (section 4.3). One thread at a
/// time may use it.
pub struct clan_writer(Writer);

/// Reads the bytes that a writer wrote. One thread at a time may use it.
pub struct clan_reader(Reader);

exported! {
/// Creates a writer on this end. The other end needs a reader.
fn clan_writer_create(end: &clan_end, writer: Out<Box<clan_writer>>) {
    writer.store(clan_writer(Writer::new(end.shared())?))
}

/// Releases a writer. NULL is a no-op.
fn clan_writer_destroy(writer: Box<clan_writer>);

/// Waits until there is room for at least one byte, writes as many as there is room for, and
/// returns their number.
fn clan_writer_write(writer: &mut clan_writer, data: *const c_void, length: usize) {
    let data = bytes(data, length, "data")?;
    writer.0.write(data)?
}

/// Like clan_writer_write, but does not wait and makes no system call: fails with -EAGAIN without
/// room.
fn clan_writer_try_write(writer: &mut clan_writer, data: *const c_void, length: usize) {
    let data = bytes(data, length, "data")?;
    match writer.0.try_write(data)? {
        0 if !data.is_empty() => return Err(Failure::nothing_yet("room to write")),
        written => written,
    }
}

/// Creates a reader on this end. The other end needs a writer.
fn clan_reader_create(end: &clan_end, reader: Out<Box<clan_reader>>) {
    reader.store(clan_reader(Reader::new(end.shared())?))
}

/// Releases a reader. NULL is a no-op.
fn clan_reader_destroy(reader: Box<clan_reader>);

/// Registers a reader with an event queue: arriving bytes become events with this token.
fn clan_reader_register(reader: &mut clan_reader, events: &mut clan_events, token: u64) {
    events.0.register_tripwire(reader.0.tripwire(), token)?
}

/// Waits until there is at least one byte, reads as many as are available and fit, and returns
/// their number. Returns 0 if the writer has closed the connection and everything has been read.
fn clan_reader_read(reader: &mut clan_reader, to: *mut c_void, length: usize) {
    let to = bytes_mut(to, length, "to")?;
    reader.0.read(to)?
}

/// Like clan_reader_read, but does not wait: fails with -EAGAIN if there is nothing yet. Makes no
/// system call if there is something to read.
fn clan_reader_try_read(reader: &mut clan_reader, to: *mut c_void, length: usize) {
    let to = bytes_mut(to, length, "to")?;
    match reader.0.try_read(to)? {
        0 if !to.is_empty() && !reader.0.is_over() => return Err(Failure::nothing_yet("byte")),
        read => read,
    }
}
}
