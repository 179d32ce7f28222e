//! Pending actions of processes.

use std::collections::VecDeque;

use hamlyn_abi::clan::dma::ClanRequest;

use super::loads::Loads;

/// An action of a process.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// Stores to a window, from some byte on.
    Stores {
        window: u32,
        at: u64,
        width: u8,
        left: u32,
    },
    Load {
        window: u32,
        at: u64,
        width: u8,
    },
    /// Puts DMA requests.
    Put {
        endpoint: u32,
        requests: VecDeque<ClanRequest>,
    },
    /// Sets a Tripwire.
    Set {
        endpoint: u32,
        index: u32,
        held: [u64; 3],
        flags: u32,
    },
    /// Takes records of an event queue.
    Take {
        queue: u32,
        most: u32,
    },
    /// Claims to have put more requests than possible, `beyond` more.
    Overstate {
        endpoint: u32,
        beyond: u32,
    },
    /// Changes requests, which the card may have read already.
    Rewrite {
        endpoint: u32,
    },
    /// Stores the true number of requests put.
    Restate {
        endpoint: u32,
    },
    /// Clears bits.
    Clear {
        endpoint: u32,
        bits: u64,
    },
    /// Changes its own memory.
    Poke {
        aperture: u32,
        offset: u64,
        length: u64,
    },
}

/// A processor, and the process on it.
#[derive(Debug)]
pub(super) struct Processor {
    owner: u32,
    actions: VecDeque<Action>,
    /// The load that it waits for, or has waited for last.
    load: Option<u64>,
}

impl Processor {
    pub(super) fn new(owner: u32) -> Self {
        Self { owner, actions: VecDeque::new(), load: None }
    }

    pub(super) fn owner(&self) -> u32 {
        self.owner
    }

    pub(super) fn actions(&self) -> &VecDeque<Action> {
        &self.actions
    }

    pub(super) fn plan(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Takes its next action, if it does not wait for a load.
    pub(super) fn next(&mut self, loads: &Loads) -> Option<Action> {
        let waits = self.load.is_some_and(|load| loads.is_waiting(load));
        if waits { None } else { self.actions.pop_front() }
    }

    /// Puts an action, or the rest of it, before all others.
    pub(super) fn go_on_with(&mut self, action: Option<Action>) {
        action.into_iter().for_each(|action| self.actions.push_front(action));
    }

    pub(super) fn wait_for(&mut self, load: Option<u64>) {
        self.load = load.or(self.load);
    }

    /// Drops actions on an object that no longer exists.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&Action) -> bool) {
        self.actions.retain(|action| !is_gone(action));
    }

    /// Drops all actions and waits for nothing: the card was reset.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.owner);
    }
}
