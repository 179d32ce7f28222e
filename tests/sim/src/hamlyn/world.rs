//! A fabric of Hamlyn cards: the model's additions to the engine's world.

use std::sync::Arc;

use crate::engine::violation::Violation;
use crate::engine::world;
use crate::hamlyn::connections::Connections;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::matrix::Matrix;
use crate::hamlyn::numbers::Numbers;
use crate::hamlyn::outlet::Again;
use crate::hamlyn::scenario::Scenario;
use crate::hamlyn::streams::Streams;
use crate::hamlyn::tally::Tally;

/// The fabric.
pub(super) type World = world::World<Hamlyn>;
/// A host of it.
pub(super) type Host = world::Host<Hamlyn>;

/// The state of the fabric, and the expected results. Only `model` acts on all of it: every other
/// file is given its parts.
#[derive(Debug)]
pub(super) struct Hamlyn {
    pub(super) scenario: Scenario,
    pub(super) ledger: Ledger,
    pub(super) fetches: Fetches,
    pub(super) streams: Streams,
    pub(super) connections: Connections,
    /// Messages for places that take only one, which were sent.
    pub(super) sent_once: Vec<Again>,
    pub(super) numbers: Numbers,
    pub(super) tally: Tally,
    /// Express memory, if there is any.
    matrix: Option<Arc<Matrix>>,
}

impl Hamlyn {
    pub(super) fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            ledger: Ledger::default(),
            fetches: Fetches::default(),
            streams: Streams::default(),
            connections: Connections::default(),
            sent_once: Vec::new(),
            numbers: Numbers::default(),
            tally: Tally::default(),
            matrix: None,
        }
    }

    /// Returns the fabric's express memory.
    pub(super) fn matrix(&mut self) -> Result<Option<Arc<Matrix>>, Violation> {
        if self.scenario.express && self.matrix.is_none() {
            self.matrix = Some(Matrix::new(self.scenario.packet_sizes.len() as u32)?);
        }
        Ok(self.matrix.clone())
    }
}
