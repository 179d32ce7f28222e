//! The known contents of the hosts' memories, now and earlier.

use crate::engine::memory::Memory;

use super::machine::FRAMES;

/// Contents of memory before they were overwritten.
#[derive(Debug)]
struct Old {
    moment: u64,
    address: u64,
    bytes: Vec<u8>,
}

/// The memories of all hosts.
#[derive(Debug)]
pub(super) struct Memories {
    contents: Vec<Vec<u8>>,
    history: Vec<Vec<Old>>,
    /// Counts changes.
    moment: u64,
}

impl Memories {
    pub(super) fn new(cards: u16) -> Self {
        let (contents, history) = (vec![0; FRAMES as usize * 4096], (0..cards).map(|_| Vec::new()));
        Self { contents: vec![contents; cards.into()], history: history.collect(), moment: 0 }
    }

    pub(super) fn moment(&self) -> u64 {
        self.moment
    }

    /// Begins the next moment, for a write of a card.
    pub(super) fn go_on(&mut self) {
        self.moment += 1;
    }

    /// Notes a change of a host's memory.
    pub(super) fn remember(&mut self, host: usize, address: u64, bytes: &[u8]) {
        let range = address as usize..address as usize + bytes.len();
        let old = self.contents[host][range.clone()].to_vec();
        self.contents[host][range].copy_from_slice(bytes);
        self.moment += 1;
        let history = &mut self.history[host];
        history.push(Old { moment: self.moment, address, bytes: old });
        if history.len() > 40_000 {
            history.drain(..20_000);
        }
    }

    /// Returns whether bytes of a host's memory may have had these values at some moment since
    /// `since`.
    pub(super) fn might_be(
        &self,
        (host, memory): (usize, &Memory),
        pieces: &[(u64, u64)],
        since: u64,
        bytes: &[u8],
    ) -> bool {
        let addresses = pieces.iter().flat_map(|(address, length)| *address..address + length);
        let is = pieces.iter().flat_map(|(address, length)| memory.peek(*address, *length as usize));
        let before = |address: u64, byte: u8| {
            self.contents[host][address as usize] == byte
                || self.history[host].iter().rev().take_while(|old| old.moment >= since).any(|old| {
                    let at = address.checked_sub(old.address);
                    at.and_then(|at| old.bytes.get(at as usize)) == Some(&byte)
                })
        };
        bytes.iter().zip(addresses).zip(is).all(|((byte, at), is)| is == *byte || before(at, *byte))
    }
}
