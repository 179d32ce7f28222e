//! A fabric of Hamlyn cards: the model's additions to the engine's world.

use std::sync::Arc;

use crate::engine::violation::Violation;
use crate::engine::world;
use crate::hamlyn::channels::CHANNEL_ENDS;
use crate::hamlyn::connections::Connections;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::matrix::Matrix;
use crate::hamlyn::program::Errand;
use crate::hamlyn::scenario::Scenario;
use crate::hamlyn::streams::Stream;

/// The fabric.
pub(crate) type World = world::World<Hamlyn>;
/// A host of it.
pub(crate) type Host = world::Host<Hamlyn>;

/// The state of the fabric, and the expected results.
#[derive(Debug)]
pub(crate) struct Hamlyn {
    pub(crate) scenario: Scenario,
    pub(crate) ledger: Ledger,
    pub(crate) fetches: Fetches,
    pub(crate) streams: Vec<Stream>,
    pub(crate) connections: Connections,
    /// Express memory, if there is any.
    matrix: Option<Arc<Matrix>>,
    /// Ends of channels that programs had (`channels`), messages that those delivered (`said`), and
    /// number of times an end slept (`slept`).
    pub(crate) channels: u64,
    pub(crate) said: u64,
    pub(crate) slept: u64,
    /// How channels have ended, in the order of [`CHANNEL_ENDS`].
    pub(crate) channel_ends: [u64; CHANNEL_ENDS.len()],
    /// Messages that found their sender's work queue full.
    pub(crate) blocked: u64,
    /// Number of times a program slept until its requests were finished.
    pub(crate) dozed: u64,
    /// Messages that were delivered while a card was stalled and others waited for it.
    pub(crate) bystanders: u64,
    /// Number of times a card's memory was full, and the card reported it.
    pub(crate) filled: u64,
    /// Messages for places that take only one: the host and process that may send them again.
    pub(crate) sent_once: Vec<(usize, u64, Errand)>,
    pub(crate) next_pid: u64,
    next_word: u32,
}

impl Hamlyn {
    pub(crate) fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            ledger: Ledger::default(),
            fetches: Fetches::default(),
            streams: Vec::new(),
            connections: Connections::default(),
            matrix: None,
            channels: 0,
            said: 0,
            slept: 0,
            channel_ends: [0; CHANNEL_ENDS.len()],
            blocked: 0,
            dozed: 0,
            bystanders: 0,
            filled: 0,
            sent_once: Vec::new(),
            next_pid: 1,
            next_word: 1,
        }
    }

    /// Returns the fabric's express memory.
    pub(crate) fn matrix(&mut self) -> Result<Option<Arc<Matrix>>, Violation> {
        if self.scenario.express && self.matrix.is_none() {
            self.matrix = Some(Matrix::new(self.scenario.packet_sizes.len() as u32)?);
        }
        Ok(self.matrix.clone())
    }

    /// Returns a unique word of fast mode.
    pub(crate) fn next_word(&mut self) -> u32 {
        self.next_word += 1;
        self.next_word
    }
}
