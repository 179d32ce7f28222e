//! Out-of-band messages.

use std::ffi::{c_int, c_void};

use hamlyn::clan::{Message, MessageKind};

use super::endpoint::{clan_address, clan_endpoint};
use crate::call::waited;
use crate::exported::{Out, exported};
use crate::memory::bytes;

/// Size of a message in bytes (section 3.1: 40).
pub const CLAN_MESSAGE_SIZE: usize = 40;

/// Requests a connection.
pub const CLAN_MESSAGE_CONNECT: u32 = 1;
/// Accepts a connection.
pub const CLAN_MESSAGE_ACCEPT: u32 = 2;
/// Refuses a connection.
pub const CLAN_MESSAGE_REFUSE: u32 = 3;
/// Ends a connection.
pub const CLAN_MESSAGE_CLOSE: u32 = 4;
/// Application data.
pub const CLAN_MESSAGE_DATA: u32 = 5;
/// From the driver: a message to that address was not delivered, because there is no such endpoint
/// or it had no room. The data is that message's.
pub const CLAN_MESSAGE_UNDELIVERED: u32 = 6;
/// From the driver: the peer at that address is gone, or its host is lost.
pub const CLAN_MESSAGE_GONE: u32 = 7;

/// A received message.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct clan_message {
    /// The sender, as reported by the two operating systems.
    pub from: clan_address,
    /// One of the CLAN_MESSAGE_ constants.
    pub kind: u32,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 3],
    /// The data.
    pub data: [u8; CLAN_MESSAGE_SIZE],
}

exported! {
/// Sends a CLAN_MESSAGE_DATA message of up to CLAN_MESSAGE_SIZE bytes, padded with zeros. If it is
/// not delivered, a message from the driver reports that. Fails with -EAGAIN if there is no room
/// now, and with -EHOSTDOWN if there is no such host.
fn clan_send_message(endpoint: &clan_endpoint, address: &clan_address, data: *const c_void, length: usize) {
    endpoint.0.send_message(address.into(), MessageKind::Data, bytes(data, length, "data")?)?;
}

/// Takes the next message. Makes no system call if one is available. If the endpoint has a
/// connection, that connection gets its messages.
fn clan_receive_message(endpoint: &clan_endpoint, message: Out<clan_message>, timeout_ms: c_int) {
    let Message { from, kind, data, .. } = waited!(timeout_ms, endpoint.0 => recv_message / recv_message_timeout())?;
    message.store(clan_message { from: from.into(), kind: number(kind), reserved: [0; 3], data })
}
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
