//! Message header.

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Reply,
    /// The reply to a request for a handler that does not exist.
    NoHandler,
}

/// The first bytes of a message; the arguments follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Index into the receiver's table of request or reply handlers.
    pub(crate) handler: u16,
    pub(crate) kind: Kind,
}

impl Head {
    /// Size in bytes; a multiple of 8, so that arguments of 8-byte words are aligned.
    pub(crate) const SIZE: usize = 8;

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let handler = self.handler.to_le_bytes();
        [handler[0], handler[1], self.kind as u8, 0, 0, 0, 0, 0]
    }

    /// Splits a message into header and arguments.
    pub(crate) fn take(message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, arguments) = message.split_first_chunk::<{ Self::SIZE }>()?;
        let kind = match head[2] {
            0 => Kind::Request,
            1 => Kind::Reply,
            2 => Kind::NoHandler,
            _ => return None,
        };
        Some((Self { handler: u16::from_le_bytes([head[0], head[1]]), kind }, arguments))
    }
}
