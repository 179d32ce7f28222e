//! Send buffers, and memory that is shared.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::shrimp::{MappingState, Mode, OwnMemory, SendBuffer, Shared};

use super::card::shrimp_card;
use super::handle::shrimp_handle;
use super::receive_buffer::shrimp_receive_buffer;
use crate::call::{Failure, at_once, call, free, given, store, timeout};
use crate::memory::{bytes, bytes_mut, lent};

/// Automatic update, single-write: each store is sent at once, as a packet of its own.
pub const SHRIMP_MODE_SINGLE: u32 = 1;
/// Automatic update, blocked-write: stores that follow each other in place and time go as one
/// packet.
pub const SHRIMP_MODE_BLOCKED: u32 = 2;
/// Deliberate update: what shrimp_send says is sent, when it says so.
pub const SHRIMP_MODE_DELIBERATE: u32 = 3;

/// What is stored arrives.
pub const SHRIMP_STATE_MAPPED: u32 = 1;
/// The receive buffer was taken back, or its process has ended: what is stored goes nowhere.
pub const SHRIMP_STATE_TAKEN_BACK: u32 = 2;
/// The other host is lost, or has begun anew: what is stored goes nowhere.
pub const SHRIMP_STATE_LOST: u32 = 3;

/// Memory of this process that is mapped to a receive buffer of another host: what is stored in it
/// arrives there, in the order in which it was stored, and nothing says when. Any number of threads
/// may use it at once.
pub struct shrimp_send_buffer(Kind);

enum Kind {
    Mapped(SendBuffer),
    Shared(Shared),
}

impl shrimp_send_buffer {
    /// What is mapped out.
    pub(crate) fn mapping(&self) -> &SendBuffer {
        match &self.0 {
            Kind::Mapped(buffer) => buffer,
            Kind::Shared(shared) => shared.mapping(),
        }
    }
}

/// Where a send buffer lies in this process, for those who build primitives of their own. It is
/// good until the buffer is destroyed.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct shrimp_memory {
    /// Its bytes, to load from.
    pub loads: *const c_void,
    /// Where stores must go to be sent by automatic update: the same memory once more, if the card
    /// sees this machine's stores; else window pages, and what was stored there is in memory a
    /// little later. A load from here waits for the stores before it. Stores of 1, 2, 4 or 8 bytes,
    /// each at a multiple of as many.
    pub stores: *mut c_void,
    /// The command pages: a command about a byte of the buffer is a store of 4 bytes at its place
    /// here.
    pub commands: *mut c_void,
    /// How many bytes it has.
    pub length: usize,
    /// When what is stored is sent: SHRIMP_MODE_.
    pub mode: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 7],
}

/// Makes a send buffer of `length` bytes, zeroed, and maps it to those bytes of a receive buffer
/// that begin at `offset`. It waits for the other host's operating system: -EACCES if that refuses,
/// -EHOSTUNREACH if there is no such host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_map(
    card: Option<&shrimp_card>,
    handle: Option<&shrimp_handle>,
    offset: u64,
    length: usize,
    mode: u32,
    buffer: Option<&mut MaybeUninit<Box<shrimp_send_buffer>>>,
) -> c_int {
    call(|| {
        let to = given(buffer, "buffer")?;
        let (card, handle) = (given(card, "card")?, given(handle, "handle")?.read()?);
        let buffer = card.0.map(&handle, offset, length, mode_of(mode)?)?;
        store(to, Box::new(shrimp_send_buffer(Kind::Mapped(buffer))))
    })
}

/// Makes a send buffer of `length` bytes of the program's own memory, and maps it to those bytes of
/// a receive buffer that begin at `offset`. Its bytes stay as they are, and are not sent before
/// they are stored again: by shrimp_store, shrimp_write, or where shrimp_get_memory says. The
/// memory stays where it is until the buffer is destroyed, and who stores to it by its own address
/// sends that only where the card sees the machine's stores (`snoops` of shrimp_info).
///
/// The memory begins at the same byte of a page as what it is mapped to (shrimp_handle_info's
/// `place`, and `offset`). Only these bytes are mapped, so two send buffers, each to its own
/// destination, may share a page where they touch. Memory that begins inside a page begins at a
/// multiple of 4 and reaches that page's end. If not: -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_map_memory(
    card: Option<&shrimp_card>,
    memory: *mut c_void,
    length: usize,
    handle: Option<&shrimp_handle>,
    offset: u64,
    mode: u32,
    buffer: Option<&mut MaybeUninit<Box<shrimp_send_buffer>>>,
) -> c_int {
    call(|| {
        let to = given(buffer, "buffer")?;
        let (card, handle) = (given(card, "card")?, given(handle, "handle")?.read()?);
        let memory = OwnMemory::over_mapping(given(lent(memory, length)?, "memory")?);
        let buffer = card.0.map_own(&memory, 0..length, &handle, offset, mode_of(mode)?)?;
        store(to, Box::new(shrimp_send_buffer(Kind::Mapped(buffer))))
    })
}

/// Shares memory with a process of another host: a receive buffer of this process' own is mapped to
/// the other's, of the same length, and the other does the same. What either stores is stored in
/// both. Let each word have one writer: there is no order between the stores of the two, and
/// algorithms for one memory, as Dekker's and Peterson's, exclude nobody here. The receive buffer
/// is gone, even if this fails: its memory is the send buffer's now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_share(
    card: Option<&shrimp_card>,
    own: Option<Box<shrimp_receive_buffer>>,
    other: Option<&shrimp_handle>,
    mode: u32,
    buffer: Option<&mut MaybeUninit<Box<shrimp_send_buffer>>>,
) -> c_int {
    call(|| {
        let (own, to) = (given(own, "own")?, given(buffer, "buffer")?);
        let (card, other) = (given(card, "card")?, given(other, "other")?.read()?);
        let shared = card.0.share(own.0, &other, mode_of(mode)?)?;
        store(to, Box::new(shrimp_send_buffer(Kind::Shared(shared))))
    })
}

/// Lets a send buffer go: what was stored is sent, and nothing after it. Its memory is gone, if it
/// is not the program's own. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_send_buffer_destroy(buffer: Option<Box<shrimp_send_buffer>>) {
    free(buffer);
}

/// Stores the lower `width` bytes of `value` (1, 2, 4 or 8) at `offset`, a multiple of as many: a
/// store that arrives in one piece.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_store(
    buffer: Option<&shrimp_send_buffer>,
    offset: usize,
    value: u64,
    width: u32,
) -> c_int {
    call(|| {
        let buffer = given(buffer, "buffer")?.mapping();
        match width {
            1 => buffer.store_u8(offset, value as u8)?,
            2 => buffer.store_u16(offset, value as u16)?,
            4 => buffer.store_u32(offset, value as u32)?,
            8 => buffer.store_u64(offset, value)?,
            _ => return Err(Failure::width(width)),
        }
        Ok(0)
    })
}

/// Loads `width` bytes (1, 2, 4 or 8) at `offset`, a multiple of as many, from this process' own
/// memory, behind all its stores.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_load(
    buffer: Option<&shrimp_send_buffer>,
    offset: usize,
    width: u32,
    value: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    call(|| {
        let (to, buffer) = (given(value, "value")?, given(buffer, "buffer")?.mapping());
        let value = match width {
            1 => buffer.load_u8(offset)?.into(),
            2 => buffer.load_u16(offset)?.into(),
            4 => buffer.load_u32(offset)?.into(),
            8 => buffer.load_u64(offset)?,
            _ => return Err(Failure::width(width)),
        };
        store(to, value)
    })
}

/// Stores bytes, in rising order and by as many as 8 at a time: who sees the last of them need not
/// see the first, unless it was stored by another call. So a flag is a store of its own, behind
/// this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_write(
    buffer: Option<&shrimp_send_buffer>,
    offset: usize,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let buffer = given(buffer, "buffer")?.mapping();
        Ok(buffer.write(offset, bytes(data, length, "data")?).map(|()| 0)?)
    })
}

/// Copies bytes out of this process' own memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_read(
    buffer: Option<&shrimp_send_buffer>,
    offset: usize,
    to: *mut c_void,
    length: usize,
) -> c_int {
    call(|| {
        let buffer = given(buffer, "buffer")?.mapping();
        Ok(buffer.read(offset, bytes_mut(to, length, "to")?).map(|()| 0)?)
    })
}

/// Sleeps while 4 bytes of shared memory are `value`, as shrimp_wait does. Only for what
/// shrimp_share has made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_wait_shared(
    buffer: Option<&shrimp_send_buffer>,
    offset: usize,
    value: u32,
    now: Option<&mut MaybeUninit<u32>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = given(now, "now")?;
        let Kind::Shared(shared) = &given(buffer, "buffer")?.0 else {
            return Err(Failure::argument("nothing arrives in a send buffer that is not shared"));
        };
        store(to, at_once(timeout_ms, shared.wait(offset, value, timeout(timeout_ms)))?)
    })
}

/// Says where a send buffer lies. Where stores must go may be another place after shrimp_set_mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_get_memory(
    buffer: Option<&shrimp_send_buffer>,
    memory: Option<&mut MaybeUninit<shrimp_memory>>,
) -> c_int {
    call(|| {
        let (to, buffer) = (given(memory, "memory")?, given(buffer, "buffer")?.mapping());
        let pointers = buffer.pointers();
        let memory = shrimp_memory {
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
        };
        store(to, memory)
    })
}

/// Changes when what is stored is sent. What was stored before is sent as it was to be sent then; a
/// deliberate update that is under way is waited for. Other threads must not store meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_set_mode(buffer: Option<&shrimp_send_buffer>, mode: u32) -> c_int {
    call(|| {
        given(buffer, "buffer")?.mapping().set_mode(mode_of(mode)?)?;
        Ok(0)
    })
}

/// Whether it still leads somewhere: SHRIMP_STATE_MAPPED or another.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shrimp_state(buffer: Option<&shrimp_send_buffer>) -> c_int {
    call(|| {
        let state = match given(buffer, "buffer")?.mapping().state()? {
            MappingState::Mapped => SHRIMP_STATE_MAPPED,
            MappingState::TakenBack => SHRIMP_STATE_TAKEN_BACK,
            _ => SHRIMP_STATE_LOST,
        };
        Ok(state as c_int)
    })
}

fn mode_of(mode: u32) -> Result<Mode, Failure> {
    match mode {
        SHRIMP_MODE_SINGLE => Ok(Mode::Single),
        SHRIMP_MODE_BLOCKED => Ok(Mode::Blocked),
        SHRIMP_MODE_DELIBERATE => Ok(Mode::Deliberate),
        _ => Err(Failure::argument(format!("mode {mode} is out of range (1 to {SHRIMP_MODE_DELIBERATE})"))),
    }
}
