//! A client's request to a server.

use crate::end::Wait;

/// Maximum number of messages in flight, not confirmed by the receiver.
pub(crate) const DEPTH: u64 = 64;

/// Version of the protocol between two tools.
const VERSION: u8 = 3;
/// Size of a request in bytes.
const SIZE: usize = 16;

/// What a server does with each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Returns its bytes.
    Echo,
    /// Answers with the same number of bytes.
    Answer,
    /// Counts it, and confirms from time to time.
    Count,
    /// As `Count`, and sends as many messages itself meanwhile.
    Both,
}

const WISHES: [Wish; 4] = [Wish::Echo, Wish::Answer, Wish::Count, Wish::Both];
const WAITS: [Wait; 3] = [Wait::Poll, Wait::Adapt, Wait::Sleep];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) wish: Wish,
    pub(crate) wait: Wait,
    /// Messages that the server may have in flight, at most [`DEPTH`].
    pub(crate) depth: u8,
    /// Size of each message, in bytes.
    pub(crate) size: usize,
    /// Number of messages that the server sends ([`Wish::Both`]). 0: until the client's last
    /// message has arrived.
    pub(crate) messages: u64,
}

impl Hello {
    /// Encodes version, wish, wait, depth; size in 4 bytes, messages in 8, little-endian.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let place = |found: Option<usize>| found.unwrap_or_default() as u8;
        let wish = place(WISHES.iter().position(|wish| *wish == self.wish));
        let wait = place(WAITS.iter().position(|wait| *wait == self.wait));
        let mut bytes = vec![VERSION, wish, wait, self.depth];
        bytes.extend((self.size as u32).to_le_bytes());
        bytes.extend(self.messages.to_le_bytes());
        bytes
    }

    /// Decodes a request for messages of at most `max_size` bytes.
    pub(crate) fn from_bytes(bytes: &[u8], max_size: usize) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.try_into().ok()?;
        let [VERSION, wish, wait, depth, ..] = *bytes else { return None };
        let (wish, wait) = (*WISHES.get(usize::from(wish))?, *WAITS.get(usize::from(wait))?);
        let size = u32::from_le_bytes(bytes[4..8].try_into().ok()?) as usize;
        let messages = u64::from_le_bytes(bytes[8..].try_into().ok()?);
        let fits = size <= max_size && (1..=DEPTH).contains(&depth.into());
        fits.then_some(Self { wish, wait, depth, size, messages })
    }

    /// Returns whether the server's message `number`, counted from 0, is its last.
    pub(crate) fn is_last(&self, number: u64, client_has_ended: bool) -> bool {
        if self.messages == 0 { client_has_ended } else { number + 1 >= self.messages }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hello(messages: u64) -> Hello {
        Hello { wish: Wish::Both, wait: Wait::Sleep, depth: DEPTH as u8, size: 1000, messages }
    }

    #[test]
    fn hello_parses_if_its_size_fits() {
        let bytes = hello(1 << 40).to_bytes();
        assert_eq!(Hello::from_bytes(&bytes, 1000), Some(hello(1 << 40)));
        assert_eq!(Hello::from_bytes(&bytes, 999), None);
        assert_eq!(Hello::from_bytes(&bytes[1..], 1000), None);
    }

    #[test]
    fn server_sends_requested_count_or_until_client_ends() {
        assert_eq!([1, 2, 3].map(|number| hello(3).is_last(number, true)), [false, true, true]);
        assert_eq!([false, true].map(|ended| hello(0).is_last(9, ended)), [false, true]);
    }

    proptest! {
        #[test]
        fn corrupted_hello_is_parsed_or_refused(at in 0..SIZE, byte in any::<u8>(), limit in 0..2000_usize) {
            let mut bytes = hello(1).to_bytes();
            bytes[at] = byte;
            if let Some(read) = Hello::from_bytes(&bytes, limit) {
                prop_assert!(read.size <= limit && (1..=DEPTH).contains(&read.depth.into()));
            }
        }
    }
}
