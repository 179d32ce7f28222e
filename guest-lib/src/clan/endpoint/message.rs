//! Out-of-band messages (section 3.1).

use hamlyn_abi::clan::uapi::*;
use zerocopy::IntoBytes;

use super::Address;

/// Bytes that a message carries (section 3.1: 40).
pub const MESSAGE_SIZE: usize = 40;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageKind {
    /// Asks for a connection.
    Connect,
    /// Accepts one.
    Accept,
    /// Refuses one.
    Refuse,
    /// Ends one.
    Close,
    /// Whatever else the two ends agree on.
    Data,
    /// From the driver: a message to that address has not been delivered, as there is no such
    /// endpoint or it had no room. The bytes are that message's.
    Undelivered,
    /// From the driver: the peer at that address is no more, or its host is lost.
    Gone,
    /// One that this library does not know.
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

    pub(in super::super) fn number(self) -> u32 {
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

/// A message that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Who sent it, as the two operating systems say.
    pub from: Address,
    /// What it is.
    pub kind: MessageKind,
    /// Its bytes.
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

/// The words of a message's bytes.
pub(super) fn words(data: &[u8; MESSAGE_SIZE]) -> [u64; 5] {
    let mut words = [0; 5];
    words.as_mut_bytes().copy_from_slice(data);
    words
}
