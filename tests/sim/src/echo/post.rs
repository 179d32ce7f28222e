//! Messages in flight.

use hamlyn_abi::echo::window::ECHO_MAX_MESSAGE;

/// Size of a packet's header, which holds the destination and source mailboxes and the key.
pub(super) const HEADER: usize = 16;

/// A message, or arbitrary bytes from a hostile host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) packet: Vec<u8>,
    /// A port has gone down since, and may have dropped it.
    pub(super) excused: bool,
}

/// Returns the packet of a message.
pub(super) fn packet(to: u32, from: u32, key: u64, data: &[u8]) -> Vec<u8> {
    [&to.to_le_bytes(), &from.to_le_bytes(), &key.to_le_bytes()[..], data].concat()
}

/// Returns the key that a valid packet carries.
pub(super) fn key(packet: &[u8]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|at| packet[8 + at]))
}

/// Returns the mailbox that a valid packet says it is from.
pub(super) fn from(packet: &[u8]) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|at| packet[4 + at]))
}

/// Returns the mailbox that a packet is for, if the packet is valid.
pub(super) fn mailbox(packet: &[u8]) -> Option<u32> {
    let sound = (HEADER..=HEADER + ECHO_MAX_MESSAGE as usize).contains(&packet.len());
    packet.first_chunk().filter(|_| sound).map(|to| u32::from_le_bytes(*to))
}

/// Packets that were sent and have not arrived.
#[derive(Debug, Default)]
pub(super) struct Post(Vec<Letter>);

impl Post {
    pub(super) fn send(&mut self, letter: Letter) {
        self.0.push(letter);
    }

    /// Excuses everything from or to a host whose port goes down.
    pub(super) fn excuse(&mut self, host: u16) {
        for letter in &mut self.0 {
            letter.excused |= [letter.source, letter.destination].contains(&host);
        }
    }

    /// Takes a packet that arrives. Returns `false` if it was not sent.
    pub(super) fn take(&mut self, source: u16, host: u16, bytes: &[u8]) -> bool {
        let is_it =
            |letter: &Letter| (letter.source, letter.destination) == (source, host) && letter.packet == bytes;
        // Of two equal packets, the one that cannot have been lost is taken first.
        let flying = self.0.iter().enumerate().filter(|(_, letter)| is_it(letter));
        let known = flying.min_by_key(|(_, letter)| letter.excused).map(|(index, _)| index);
        known.map(|known| self.0.swap_remove(known)).is_some()
    }

    /// Returns a message to one of `hosts` hosts that is lost.
    pub(super) fn lost(&self, hosts: usize) -> Option<&Letter> {
        self.0.iter().find(|letter| !letter.excused && usize::from(letter.destination) < hosts)
    }
}
