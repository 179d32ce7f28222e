//! Message header.

/// The outcome of a request; unused in a request itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Handled,
    NoHandler,
}

/// The first bytes of a message; the arguments follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Index into the receiver's table of request or reply handlers.
    pub(crate) handler: u16,
    pub(crate) verdict: Verdict,
}

impl Head {
    /// Size in bytes; a multiple of 8, so that arguments of 8-byte words are aligned.
    pub(crate) const SIZE: usize = 8;

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let handler = self.handler.to_le_bytes();
        [handler[0], handler[1], u8::from(self.verdict == Verdict::NoHandler), 0, 0, 0, 0, 0]
    }

    /// Splits a message into header and arguments.
    pub(crate) fn take(message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, arguments) = message.split_first_chunk::<{ Self::SIZE }>()?;
        let verdict = if head[2] == 0 { Verdict::Handled } else { Verdict::NoHandler };
        Some((Self { handler: u16::from_le_bytes([head[0], head[1]]), verdict }, arguments))
    }
}
