//! Ordered byte streams.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::programs::stream::{Reader, Writer};

use super::end::{clan_end, register};
use crate::call::{Failure, call, count, free, given, store};
use crate::clan::events::clan_events;
use crate::memory::{bytes, bytes_mut};

/// Writes bytes, by a distributed queue whose elements are bytes (section 4.3). One thread at a
/// time may use it.
pub struct clan_writer(Writer);

/// Reads the bytes that a writer wrote. One thread at a time may use it.
pub struct clan_reader(Reader);

/// Creates a writer on this end. The other end needs a reader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_writer_create(
    end: Option<&clan_end>,
    writer: Option<&mut MaybeUninit<Box<clan_writer>>>,
) -> c_int {
    call(|| {
        let to = given(writer, "writer")?;
        store(to, Box::new(clan_writer(Writer::new(given(end, "end")?.shared())?)))
    })
}

/// Releases a writer. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_writer_destroy(writer: Option<Box<clan_writer>>) {
    free(writer);
}

/// Waits until there is room for at least one byte, writes as many as there is room for, and
/// returns their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_writer_write(
    writer: Option<&mut clan_writer>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let (writer, data) = (&mut given(writer, "writer")?.0, bytes(data, length, "data")?);
        Ok(count(writer.write(data)?))
    })
}

/// Like clan_writer_write, but does not wait and makes no system call: fails with -EAGAIN without
/// room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_writer_try_write(
    writer: Option<&mut clan_writer>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let (writer, data) = (&mut given(writer, "writer")?.0, bytes(data, length, "data")?);
        match writer.try_write(data)? {
            0 if !data.is_empty() => Err(Failure::nothing_yet("room to write")),
            written => Ok(count(written)),
        }
    })
}

/// Creates a reader on this end. The other end needs a writer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_reader_create(
    end: Option<&clan_end>,
    reader: Option<&mut MaybeUninit<Box<clan_reader>>>,
) -> c_int {
    call(|| {
        let to = given(reader, "reader")?;
        store(to, Box::new(clan_reader(Reader::new(given(end, "end")?.shared())?)))
    })
}

/// Releases a reader. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_reader_destroy(reader: Option<Box<clan_reader>>) {
    free(reader);
}

/// Registers a reader with an event queue: arriving bytes become events with this token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_reader_register(
    reader: Option<&mut clan_reader>,
    events: Option<&mut clan_events>,
    token: u64,
) -> c_int {
    register(events, given(reader, "reader").map(|reader| reader.0.tripwire()), token)
}

/// Waits until there is at least one byte, reads as many as are available and fit, and returns
/// their number. Returns 0 if the writer has closed the connection and everything has been read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_reader_read(
    reader: Option<&mut clan_reader>,
    to: *mut c_void,
    length: usize,
) -> c_int {
    call(|| {
        let (reader, to) = (&mut given(reader, "reader")?.0, bytes_mut(to, length, "to")?);
        Ok(count(reader.read(to)?))
    })
}

/// Like clan_reader_read, but does not wait: fails with -EAGAIN if there is nothing yet. Makes no
/// system call if there is something to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_reader_try_read(
    reader: Option<&mut clan_reader>,
    to: *mut c_void,
    length: usize,
) -> c_int {
    call(|| {
        let (reader, to) = (&mut given(reader, "reader")?.0, bytes_mut(to, length, "to")?);
        match reader.try_read(to)? {
            0 if !to.is_empty() && !reader.is_over() => Err(Failure::nothing_yet("byte")),
            read => Ok(count(read)),
        }
    })
}
