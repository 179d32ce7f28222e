//! Pending actions of processors.

use std::collections::VecDeque;

/// An action of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Consecutive stores on the bus.
    Stores {
        address: u64,
        width: u8,
        left: u32,
    },
    /// Consecutive stores through the window.
    WindowStores {
        address: u64,
        width: u8,
        left: u32,
    },
    WindowLoad {
        address: u64,
        width: u8,
    },
    /// A compare-with-0-and-exchange on a command page, repeated until it has found 0. `found` is
    /// the value that was read and not written back yet.
    Update {
        address: u64,
        words: u32,
        found: Option<u32>,
    },
    /// One such exchange with a value other than 0 in the accumulator. The compare fails although
    /// it finds 0.
    Miss {
        address: u64,
        found: Option<u32>,
    },
    /// A store of any other value to a command page.
    Command {
        address: u64,
        width: u8,
        value: u64,
    },
}

/// A processor.
#[derive(Debug, Default)]
pub(super) struct Processor {
    pub(super) deeds: VecDeque<Deed>,
}
