//! Send buffers, and shared memory.

use std::ffi::{c_int, c_void};

use hamlyn::shrimp::{MappingState, Mode, OwnMemory, SendBuffer, Shared};

use super::card::shrimp_card;
use super::handle::shrimp_handle;
use super::receive_buffer::shrimp_receive_buffer;
use crate::call::{Failure, given, waited};
use crate::exported::{Out, exported};
use crate::memory::{bytes, bytes_mut, lent};

/// Automatic update, single-write: each store is sent immediately, as its own packet.
pub const SHRIMP_MODE_SINGLE: u32 = 1;
/// Automatic update, blocked-write: stores that are consecutive in place and time are combined into
/// one packet.
pub const SHRIMP_MODE_BLOCKED: u32 = 2;
/// Deliberate update: data is sent only by shrimp_send.
pub const SHRIMP_MODE_DELIBERATE: u32 = 3;

/// Stores arrive.
pub const SHRIMP_STATE_MAPPED: u32 = 1;
/// The receive buffer was withdrawn, or its process has ended: stores are dropped.
pub const SHRIMP_STATE_TAKEN_BACK: u32 = 2;
/// The other host is lost, or has restarted: stores are dropped.
pub const SHRIMP_STATE_LOST: u32 = 3;

/// Memory of this process that is mapped to a receive buffer of another host. Stores to it arrive
/// there in the order in which they were stored; there is no notification of arrival. Any number of
/// threads may use it at once.
pub struct shrimp_send_buffer(Kind);

enum Kind {
    Mapped(SendBuffer),
    Shared(Shared),
}

impl shrimp_send_buffer {
    /// Returns the outgoing mapping.
    pub(crate) fn mapping(&self) -> &SendBuffer {
        match &self.0 {
            Kind::Mapped(buffer) => buffer,
            Kind::Shared(shared) => shared.mapping(),
        }
    }
}

/// Addresses of a send buffer in this process, for programs that build their own primitives. Valid
/// until the buffer is destroyed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct shrimp_memory {
    /// The bytes, to load from.
    pub loads: *const c_void,
    /// Address to store to for automatic update. If the card snoops this machine's stores, it is
    /// another mapping of the same memory. Otherwise it is the window pages, and stores reach the
    /// memory a little later. A load from here waits for the stores before it. Stores must be 1, 2,
    /// 4 or 8 bytes wide and naturally aligned.
    pub stores: *mut c_void,
    /// The command pages. To issue a command for a byte of the buffer, store 4 bytes at its offset
    /// here.
    pub commands: *mut c_void,
    /// Number of bytes.
    pub length: usize,
    /// When stores are sent: one of SHRIMP_MODE_.
    pub mode: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 7],
}

exported! {
/// Creates a zeroed send buffer of `length` bytes, and maps it to the bytes of a receive buffer
/// from `offset`. Waits for the other host's operating system. Fails with -EACCES if that refuses,
/// and with -EHOSTUNREACH if there is no such host.
fn shrimp_map(
    card: &shrimp_card,
    handle: &shrimp_handle,
    offset: u64,
    length: usize,
    mode: u32,
    buffer: Out<Box<shrimp_send_buffer>>,
) {
    let handle = handle.read()?;
    buffer.store(shrimp_send_buffer(Kind::Mapped(card.0.map(&handle, offset, length, mode_of(mode)?)?)))
}

/// Creates a send buffer of `length` bytes of the program's own memory, and maps it to the bytes of
/// a receive buffer from `offset`. The bytes keep their contents. They are not sent until they are
/// stored again: by shrimp_store, by shrimp_write, or at the address from shrimp_get_memory. The
/// memory must stay mapped until the buffer is destroyed. Stores to its own address are sent only
/// if the card snoops the machine's stores (`snoops` of shrimp_card_info).
///
/// The memory must begin at the same page offset as the destination (shrimp_handle_info's `place`,
/// and `offset`). Only these bytes are mapped, so two send buffers with different destinations may
/// share a page if they are adjacent. Memory that begins inside a page must begin at a multiple of
/// 4 and reach that page's end. Otherwise the call fails with -EINVAL.
fn shrimp_map_memory(
    card: &shrimp_card,
    memory: *mut c_void,
    length: usize,
    handle: &shrimp_handle,
    offset: u64,
    mode: u32,
    buffer: Out<Box<shrimp_send_buffer>>,
) {
    let handle = handle.read()?;
    let memory = OwnMemory::over_mapping(given(lent(memory, length)?, "memory")?);
    buffer.store(shrimp_send_buffer(Kind::Mapped(card.0.map_own(
        &memory,
        0..length,
        &handle,
        offset,
        mode_of(mode)?,
    )?)))
}

/// Shares memory with a process on another host. It maps this process' receive buffer to the
/// other's, of the same length; the other process does the same. A store by either arrives in both.
/// Let each word have only one writer. There is no order between the stores of the two sides, so
/// shared-memory algorithms like Dekker's and Peterson's do not give mutual exclusion here. The
/// receive buffer may not be used afterwards, even if this fails: it becomes a part of the send
/// buffer.
fn shrimp_share(
    card: &shrimp_card,
    own: Box<shrimp_receive_buffer>,
    other: &shrimp_handle,
    mode: u32,
    buffer: Out<Box<shrimp_send_buffer>>,
) {
    let other = other.read()?;
    let shared = card.0.share(own.0, &other, mode_of(mode)?)?;
    buffer.store(shrimp_send_buffer(Kind::Shared(shared)))
}

/// Releases a send buffer: earlier stores are sent, later ones are not. Its memory is freed unless
/// it is the program's own. NULL is a no-op.
fn shrimp_send_buffer_destroy(buffer: Box<shrimp_send_buffer>);

/// Stores the lower `width` bytes of `value` (1, 2, 4 or 8) at `offset`, a multiple of `width`. The
/// store arrives atomically.
fn shrimp_store(buffer: &shrimp_send_buffer, offset: usize, value: u64, width: u32) {
    let buffer = buffer.mapping();
    match width {
        1 => buffer.store_u8(offset, value as u8)?,
        2 => buffer.store_u16(offset, value as u16)?,
        4 => buffer.store_u32(offset, value as u32)?,
        8 => buffer.store_u64(offset, value)?,
        _ => return Err(Failure::width(width)),
    }
}

/// Loads `width` bytes (1, 2, 4 or 8) at `offset`, a multiple of `width`, from this process'
/// memory. The load is ordered after all its stores.
fn shrimp_load(buffer: &shrimp_send_buffer, offset: usize, width: u32, value: Out<u64>) {
    let buffer = buffer.mapping();
    value.store(match width {
        1 => buffer.load_u8(offset)?.into(),
        2 => buffer.load_u16(offset)?.into(),
        4 => buffer.load_u32(offset)?.into(),
        8 => buffer.load_u64(offset)?,
        _ => return Err(Failure::width(width)),
    })
}

/// Stores bytes in ascending order, in units of up to 8 bytes. A reader that sees the last of them
/// may not yet see the first, unless a separate call stored the last. So store a flag with a
/// separate call after this one.
fn shrimp_write(buffer: &shrimp_send_buffer, offset: usize, data: *const c_void, length: usize) {
    let buffer = buffer.mapping();
    buffer.write(offset, bytes(data, length, "data")?)?
}

/// Copies bytes out of this process' memory.
fn shrimp_read(buffer: &shrimp_send_buffer, offset: usize, to: *mut c_void, length: usize) {
    let buffer = buffer.mapping();
    buffer.read(offset, bytes_mut(to, length, "to")?)?
}

/// Sleeps while 4 bytes of shared memory equal `value`, like shrimp_wait. Only for buffers from
/// shrimp_share.
fn shrimp_wait_shared(
    buffer: &shrimp_send_buffer,
    offset: usize,
    value: u32,
    now: Out<u32>,
    timeout_ms: c_int,
) {
    let Kind::Shared(shared) = &buffer.0 else {
        return Err(Failure::argument("nothing arrives in a send buffer that is not shared"));
    };
    now.store(waited!(timeout_ms, shared => wait / wait_timeout(offset, value))?)
}

/// Stores the addresses of a send buffer. The address for stores may change after shrimp_set_mode.
fn shrimp_get_memory(buffer: &shrimp_send_buffer, memory: Out<shrimp_memory>) {
    let buffer = buffer.mapping();
    let pointers = buffer.pointers();
    memory.store(shrimp_memory {
        loads: pointers.memory.cast(),
        stores: pointers.stores.cast(),
        commands: pointers.commands.cast(),
        length: buffer.len(),
        mode: match buffer.mode() {
            Mode::Single => SHRIMP_MODE_SINGLE,
            Mode::Blocked => SHRIMP_MODE_BLOCKED,
            Mode::Deliberate => SHRIMP_MODE_DELIBERATE,
        },
        reserved: [0; 7],
    })
}

/// Changes when stores are sent. Earlier stores are sent by the earlier mode. Waits for a
/// deliberate update that is in progress. Other threads must not store meanwhile.
fn shrimp_set_mode(buffer: &shrimp_send_buffer, mode: u32) {
    buffer.mapping().set_mode(mode_of(mode)?)?;
}

/// Returns whether the mapping is still valid: SHRIMP_STATE_MAPPED or another.
fn shrimp_state(buffer: &shrimp_send_buffer) {
    let state = match buffer.mapping().state()? {
        MappingState::Mapped => SHRIMP_STATE_MAPPED,
        MappingState::TakenBack => SHRIMP_STATE_TAKEN_BACK,
        _ => SHRIMP_STATE_LOST,
    };
    state as c_int
}
}

fn mode_of(mode: u32) -> Result<Mode, Failure> {
    match mode {
        SHRIMP_MODE_SINGLE => Ok(Mode::Single),
        SHRIMP_MODE_BLOCKED => Ok(Mode::Blocked),
        SHRIMP_MODE_DELIBERATE => Ok(Mode::Deliberate),
        _ => Err(Failure::argument(format!("mode {mode} is out of range (1 to {SHRIMP_MODE_DELIBERATE})"))),
    }
}
