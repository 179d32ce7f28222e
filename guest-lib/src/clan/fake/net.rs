//! The state shared by all hosts of the fake network.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hamlyn_abi::clan::event::CLAN_EVENT_MESSAGE;
use hamlyn_abi::clan::uapi::*;
use hamlyn_sys::Mapping;

use super::super::card::Card;
use super::Pages;
use super::card::FakeCard;
use super::endpoint::Endpoint;

#[derive(Debug)]
pub(in super::super) struct Net {
    state: Mutex<State>,
    over: AtomicBool,
    pub(super) owners: AtomicU32,
    /// Number of sleeps that ended by timeout.
    pub(in super::super) sleeps: AtomicU32,
    pub(in super::super) kicks: AtomicU32,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) apertures: HashMap<(u32, u32), Aperture>,
    /// By number, which is unique across hosts.
    pub(super) endpoints: HashMap<u32, Endpoint>,
    pub(super) queues: HashMap<u32, Queue>,
    pub(super) windows: HashMap<u32, u32>,
    /// Pages that can be mapped and the first byte, by the offset returned for them.
    pub(super) maps: HashMap<u64, (Pages, u64)>,
    next: u32,
}

#[derive(Debug)]
pub(super) struct Aperture {
    pub(super) owner: u32,
    pub(super) key: u64,
    pub(super) length: u64,
    pub(super) memory: Weak<Mapping>,
    pub(super) pages: Option<Pages>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) memory: Pages,
    pub(super) records: u32,
    pub(super) put: u32,
    pub(super) sources: HashMap<(u32, u32, u32), u32>,
}

impl State {
    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub(super) fn give_out(&mut self, pages: Pages, from: u64) -> u64 {
        let offset = u64::from(self.number()) << 12;
        self.maps.insert(offset, (pages, from));
        offset
    }

    pub(super) fn at(&mut self, host: u32, port: u32) -> Option<(u32, &mut Endpoint)> {
        let found = self.endpoints.iter_mut().find(|(_, one)| (one.host, one.port) == (host, port));
        found.map(|(number, endpoint)| (*number, endpoint))
    }

    /// Sends a message. Returns false if the receiver does not exist or has no room.
    pub(super) fn say(&mut self, from: (u32, u32), to: (u32, u32), kind: u32, data: [u64; 5]) -> bool {
        let message = ClanMessage { number: 0, kind, host: from.0, port: from.1, data, reserved: 0 };
        let posted = self.at(to.0, to.1).and_then(|(number, one)| one.post(&message).then_some(number));
        if let Some(number) = posted {
            self.event(number, CLAN_EVENT_MESSAGE, 0);
        }
        posted.is_some()
    }
}

impl Net {
    pub(super) fn start() -> Arc<Self> {
        let net = Arc::new(Self {
            state: Mutex::default(),
            over: AtomicBool::new(false),
            owners: AtomicU32::new(1),
            sleeps: AtomicU32::new(0),
            kicks: AtomicU32::new(0),
        });
        let weak = Arc::downgrade(&net);
        std::thread::spawn(move || {
            while let Some(net) = weak.upgrade() {
                let mut state = net.lock();
                if net.over.load(Ordering::Relaxed) {
                    return;
                }
                state.serve_all();
                drop(state);
                drop(net);
                std::thread::yield_now();
            }
        });
        net
    }

    /// Stops the thread: from then on, [`Net::step`] does its work.
    pub(in super::super) fn stop(&self) {
        // With the lock held, no round is in progress, and the next round sees the flag.
        let _state = self.lock();
        self.over.store(true, Ordering::Relaxed);
    }

    /// Does one round of work for all cards.
    pub(in super::super) fn step(&self) {
        self.lock().serve_all();
    }

    pub(in super::super) fn open(self: &Arc<Self>, host: u32) -> Card {
        Card::attached(Arc::new(FakeCard::new(self, host)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the number of open apertures, endpoints, windows and event queues.
    pub(in super::super) fn open_objects(&self) -> [usize; 4] {
        let state = self.lock();
        [state.apertures.len(), state.endpoints.len(), state.windows.len(), state.queues.len()]
    }
}
