//! Out-of-band messages (section 3.1).

use hamlyn_abi::clan::uapi::*;
use zerocopy::IntoBytes;

use super::address::Address;

/// Payload of a message in bytes (section 3.1: 40).
pub const MESSAGE_SIZE: usize = 40;

/// Message types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageKind {
    /// Requests a connection.
    Connect,
    /// Accepts a connection.
    Accept,
    /// Refuses a connection.
    Refuse,
    /// Closes a connection.
    Close,
    /// Application data.
    Data,
    /// From the driver: a message to that address was not delivered, because the endpoint does not
    /// exist or had no room. The data is that message's.
    Undelivered,
    /// From the driver: the process of the peer at that address has ended, or its host is lost.
    Gone,
    /// A type that this library does not know.
    Unknown(u32),
}

impl MessageKind {
    fn of(kind: u32) -> Self {
        match kind {
            CLAN_MESSAGE_CONNECT => MessageKind::Connect,
            CLAN_MESSAGE_ACCEPT => MessageKind::Accept,
            CLAN_MESSAGE_REFUSE => MessageKind::Refuse,
            CLAN_MESSAGE_CLOSE => MessageKind::Close,
            CLAN_MESSAGE_DATA => MessageKind::Data,
            CLAN_MESSAGE_UNDELIVERED => MessageKind::Undelivered,
            CLAN_MESSAGE_GONE => MessageKind::Gone,
            other => MessageKind::Unknown(other),
        }
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            MessageKind::Connect => CLAN_MESSAGE_CONNECT,
            MessageKind::Accept => CLAN_MESSAGE_ACCEPT,
            MessageKind::Refuse => CLAN_MESSAGE_REFUSE,
            MessageKind::Close => CLAN_MESSAGE_CLOSE,
            MessageKind::Data => CLAN_MESSAGE_DATA,
            MessageKind::Undelivered => CLAN_MESSAGE_UNDELIVERED,
            MessageKind::Gone => CLAN_MESSAGE_GONE,
            MessageKind::Unknown(kind) => kind,
        }
    }
}

/// A received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The sender's address, verified by the two operating systems.
    pub from: Address,
    /// The message type.
    pub kind: MessageKind,
    /// The message data.
    pub data: [u8; MESSAGE_SIZE],
}

impl Message {
    pub(super) fn of(message: &ClanMessage) -> Self {
        let mut data = [0; MESSAGE_SIZE];
        data.copy_from_slice(message.data.as_bytes());
        let from = Address { host: message.host, port: message.port };
        Self { from, kind: MessageKind::of(message.kind), data }
    }
}

/// Converts message data to words.
pub(super) fn words(data: &[u8; MESSAGE_SIZE]) -> [u64; 5] {
    let mut words = [0; 5];
    words.as_mut_bytes().copy_from_slice(data);
    words
}
