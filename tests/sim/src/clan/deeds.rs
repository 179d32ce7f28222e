//! Pending actions of processes.

use std::collections::VecDeque;

use hamlyn_abi::clan::dma::ClanRequest;

/// An action of a process.
#[derive(Debug, Clone)]
pub(super) enum Deed {
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
    pub(super) owner: u32,
    pub(super) deeds: VecDeque<Deed>,
    /// The load that it waits for.
    pub(super) stands_still: Option<u64>,
}

impl Processor {
    pub(super) fn new(owner: u32) -> Self {
        Self { owner, deeds: VecDeque::new(), stands_still: None }
    }
}
