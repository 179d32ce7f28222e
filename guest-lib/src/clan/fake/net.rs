//! The state shared by all hosts of the fake network.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::state::State;

#[derive(Debug)]
pub(in super::super) struct Net {
    state: Mutex<State>,
    over: AtomicBool,
    pub(super) owners: AtomicU32,
    /// Number of sleeps that ended by timeout.
    pub(in super::super) sleeps: AtomicU32,
    pub(in super::super) kicks: AtomicU32,
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the number of open apertures, endpoints, windows and event queues.
    pub(in super::super) fn open_objects(&self) -> [usize; 4] {
        let state = self.lock();
        [state.apertures.len(), state.endpoints.len(), state.windows.len(), state.queues.len()]
    }
}
