//! The part of an operating system that sets connections up and watches over them (sections 6.3 and 6.4).
//!
//! It follows `docs/connections.md` and the Linux driver, function by function; it is a second reading of the first, and a
//! model of the second. It has no card, clock or thread: time and messages are handed in, and what it wants done to
//! the card comes out as [`Action`]s. So it can be read, and tested, by itself. Two bind it to cards: the seeded simulation, and
//! the library for programs that attach to a card's socket, with no operating system between.
//!
//! | file | like the driver's | holds |
//! |---|---|---|
//! | `peer` | `peer.c` | a remote operating system: messages once and in order, life, incarnations |
//! | `connect` | `connect.c` | connections, and the names that are listened to |
//! | `slots` | `wellknown.c` | the layout of well-known slots, and what is posted to them |

mod connect;
mod peer;
#[cfg(test)]
mod question_tests;
pub mod slots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use hamlyn_abi::kernel::well_known::HAMLYN_WELL_KNOWN_SLOTS;
use hamlyn_abi::kernel::wire::HamlynWire;
use hamlyn_abi::uapi::{HAMLYN_CONNECTION_ENDED, HAMLYN_MAX_CONNECTIONS};

use peer::Peer;
use slots::PLACES;

/// Connections and listeners of a card.
const MAX_COUNT: usize = HAMLYN_MAX_CONNECTIONS as usize;

/// What an operating system wants done to its card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A packet to the operating system of a host, for an entry of our well-known slot there. It may find no room.
    Send {
        /// The other host.
        host: u32,
        /// The entry, and its place.
        entry: u32,
        /// The metadata.
        wire: HamlynWire,
        /// Name and private data.
        data: Vec<u8>,
    },
    /// An entry of a host's slot here may take a message again.
    Reopen {
        /// The other host.
        host: u32,
        /// The entry.
        entry: u32,
    },
    /// A connection was established or has ended: who sleeps on it is to look.
    Decided {
        /// Its number.
        connection: u32,
    },
    /// Requests may have come to a listener, or gone: who sleeps on it is to look.
    Requests {
        /// Its number.
        listener: u32,
    },
}

/// A connection, until nobody holds it any more.
#[derive(Debug)]
struct Connection {
    /// The other host.
    peer: u32,
    /// `HAMLYN_CONNECTION_*`.
    state: u32,
    /// `HAMLYN_END_*`, once it has ended.
    reason: u32,
    /// Its number at the other side, if that is known.
    remote: u32,
    /// This side asked for it.
    asked: bool,
    /// It only asks whether somebody listens, and ends with the answer.
    question: bool,
    /// Whose requests it is among.
    listener: Option<u32>,
    /// It has a file, or is among a listener's requests.
    held: bool,
    /// What the peer passed last.
    private: Vec<u8>,
}

impl Connection {
    fn is_live(&self) -> bool {
        self.state != HAMLYN_CONNECTION_ENDED
    }
}

/// A name that is listened to.
#[derive(Debug)]
struct Listener {
    name: Vec<u8>,
    backlog: usize,
    requests: VecDeque<u32>,
}

/// The part of an operating system that has to do with connections.
#[derive(Debug)]
pub struct System {
    /// Its card has been started.
    open: bool,
    /// Its card has a link.
    link: bool,
    /// How often that had changed when it was last looked at.
    link_changes: u32,
    /// Milliseconds without a sign of life after which a host is given up.
    timeout: u64,
    /// The time, in milliseconds.
    now: u64,
    /// What incarnations are made of: a random number, and how many there have been.
    origin: u32,
    incarnations: u32,
    peers: Vec<Peer>,
    connections: BTreeMap<u32, Connection>,
    listeners: BTreeMap<u32, Listener>,
    next_number: u32,
    next_listener: u32,
    /// When peers are looked after next, and when they were last.
    due: Option<u64>,
    ticked: u64,
    /// Whom that begins with.
    turn: usize,
    actions: Vec<Action>,
}

impl System {
    /// Of a card that has not been started.
    pub fn new(origin: u32, timeout: u64) -> Self {
        Self {
            open: false,
            link: false,
            link_changes: 0,
            timeout,
            now: 0,
            // Never 0: that is unknown.
            origin: origin | 1,
            incarnations: 0,
            peers: (0..HAMLYN_WELL_KNOWN_SLOTS).map(|_| Peer::default()).collect(),
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            next_number: 1,
            next_listener: 1,
            due: None,
            ticked: 0,
            turn: 0,
            actions: Vec::new(),
        }
    }

    /// It is so late now.
    pub fn time_is(&mut self, now: u64) {
        self.now = now;
    }

    /// The card has been started: nothing is remembered of anybody.
    pub fn start(&mut self) {
        self.open = true;
        (0..HAMLYN_WELL_KNOWN_SLOTS).for_each(|host| self.peer_open(host));
    }

    /// How the card's link is now, and how often it has changed: one that is up, and was up, may have been down.
    pub fn link_is(&mut self, up: bool, changes: u32) {
        // One that was down and has come up once has lost nothing; anything else may have.
        let came = up && !self.link && changes == self.link_changes.wrapping_add(1);
        let lost = changes != self.link_changes && !came;
        (self.link, self.link_changes) = (up, changes);
        if lost {
            self.connections_lost(hamlyn_abi::uapi::HAMLYN_END_LINK_LOST);
        }
    }

    /// What is to be done to the card since the last call.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// When peers are to be looked after next, if any are.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// When this side last forgot what it had with a host, in milliseconds.
    pub fn renewed(&self, host: u32) -> u64 {
        self.peers[host as usize].renewed
    }

    /// Connections, listeners, and messages that wait for acknowledgement. At rest there are none.
    pub fn table_sizes(&self) -> (usize, usize, usize) {
        let messages = self.peers.iter().map(|peer| peer.queue.len()).sum();
        (self.connections.len(), self.listeners.len(), messages)
    }

    fn peer(&mut self, host: u32) -> &mut Peer {
        &mut self.peers[host as usize]
    }
}
