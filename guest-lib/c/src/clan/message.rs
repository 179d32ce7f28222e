//! Out-of-band messages.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::{Message, MessageKind};

use super::endpoint::{clan_address, clan_endpoint};
use crate::call::{at_once, call, given, store, timeout};
use crate::memory::bytes;

/// Bytes that a message carries (section 3.1: 40).
pub const CLAN_MESSAGE_SIZE: usize = 40;

/// Asks for a connection.
pub const CLAN_MESSAGE_CONNECT: u32 = 1;
/// Accepts one.
pub const CLAN_MESSAGE_ACCEPT: u32 = 2;
/// Refuses one.
pub const CLAN_MESSAGE_REFUSE: u32 = 3;
/// Ends one.
pub const CLAN_MESSAGE_CLOSE: u32 = 4;
/// Whatever else the two ends agree on.
pub const CLAN_MESSAGE_DATA: u32 = 5;
/// From the driver: a message to that address has not been delivered, as there is no such endpoint
/// or it had no room. The bytes are that message's.
pub const CLAN_MESSAGE_UNDELIVERED: u32 = 6;
/// From the driver: the peer at that address is no more, or its host is lost.
pub const CLAN_MESSAGE_GONE: u32 = 7;

/// A message that has come.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_message {
    /// Who sent it, as the two operating systems say.
    pub from: clan_address,
    /// CLAN_MESSAGE_DATA or another.
    pub kind: u32,
    /// For what may come: zeros.
    pub reserved: [u32; 3],
    /// Its bytes.
    pub data: [u8; CLAN_MESSAGE_SIZE],
}

/// Sends a message of up to CLAN_MESSAGE_SIZE bytes, of CLAN_MESSAGE_DATA; what is missing is
/// zeros. That it is not delivered is told by a message of the driver's. -EAGAIN if there is no
/// room for it now, -EHOSTDOWN if there is no such host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_send_message(
    endpoint: Option<&clan_endpoint>,
    address: Option<&clan_address>,
    data: *const c_void,
    length: usize,
) -> c_int {
    call(|| {
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(address, "address")?);
        endpoint.send_message(to.into(), MessageKind::Data, bytes(data, length, "data")?)?;
        Ok(0)
    })
}

/// Takes the next message. If one is there that is no system call. An endpoint that has a
/// connection gives its messages to that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_receive_message(
    endpoint: Option<&clan_endpoint>,
    message: Option<&mut MaybeUninit<clan_message>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (endpoint, to) = (&given(endpoint, "endpoint")?.0, given(message, "message")?);
        let Message { from, kind, data, .. } = at_once(timeout_ms, endpoint.message(timeout(timeout_ms)))?;
        store(to, clan_message { from: from.into(), kind: number(kind), reserved: [0; 3], data })
    })
}

fn number(kind: MessageKind) -> u32 {
    match kind {
        MessageKind::Connect => CLAN_MESSAGE_CONNECT,
        MessageKind::Accept => CLAN_MESSAGE_ACCEPT,
        MessageKind::Refuse => CLAN_MESSAGE_REFUSE,
        MessageKind::Close => CLAN_MESSAGE_CLOSE,
        MessageKind::Data => CLAN_MESSAGE_DATA,
        MessageKind::Undelivered => CLAN_MESSAGE_UNDELIVERED,
        MessageKind::Gone => CLAN_MESSAGE_GONE,
        MessageKind::Unknown(number) => number,
        _ => 0,
    }
}
