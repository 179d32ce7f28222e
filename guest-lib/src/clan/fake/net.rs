//! What all hosts of the net have.

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
    /// Sleeps that nobody ended.
    pub(in super::super) sleeps: AtomicU32,
    pub(in super::super) kicks: AtomicU32,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) apertures: HashMap<(u32, u32), Aperture>,
    /// By host and number in one.
    pub(super) endpoints: HashMap<u32, Endpoint>,
    pub(super) queues: HashMap<u32, Queue>,
    pub(super) windows: HashMap<u32, u32>,
    /// What may be mapped, by the offset it was given out under, and from which byte on.
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

    /// Sends a message; who cannot be told of it tells the sender so.
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

    /// Has the thread do nothing any more: then [`Net::step`] does.
    pub(in super::super) fn stop(&self) {
        // No round is under way now, and the next one sees it.
        let _state = self.lock();
        self.over.store(true, Ordering::Relaxed);
    }

    /// What all cards do, once.
    pub(in super::super) fn step(&self) {
        self.lock().serve_all();
    }

    pub(in super::super) fn open(self: &Arc<Self>, host: u32) -> Card {
        Card::attached(Arc::new(FakeCard::new(self, host)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Who is open: apertures, endpoints, windows, event queues.
    pub(in super::super) fn open_objects(&self) -> [usize; 4] {
        let state = self.lock();
        [state.apertures.len(), state.endpoints.len(), state.windows.len(), state.queues.len()]
    }
}
