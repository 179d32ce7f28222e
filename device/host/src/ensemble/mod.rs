//! `hamlyn fabric`: cards and the switch between them in one process, one thread at a time.
//!
//! To the code they are an ensemble: a fabric is what carries packets, here and between processes.
//!
//! A message takes one wake-up on its way, that of one thread here, where separate processes take
//! three. What is given up is that a card's process can fail, be limited or be killed alone; and
//! that machines may lend any memory: here only what they cannot take away. Guests and their
//! processes are as protected from each other as before: the cards make the same checks.
//!
//! * `round`: the cards and the switch, and what is done in a round
//! * `roster`: which of the cards are looked at
//! * `ears`: the threads that hear the machines, and how they share the ensemble
//! * `process`: the event loop

mod ears;
mod process;
mod roster;
mod round;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waits_tests;

use std::path::PathBuf;
use std::time::Duration;

use hamlyn_switch::bursts;
use hamlyn_switch::mesh::Shape;
use hamlyn_switch::{Form, Part};

pub use self::process::run;
use crate::station::CardOptions;

/// What the process is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// What each card is like, and where its machine connects.
    pub cards: Vec<(CardOptions, PathBuf)>,
    /// The switch's paths to each card.
    pub paths: u16,
    /// A mesh for packets to come through, in place of paths.
    pub mesh: Option<Shape>,
    /// What each pair of cards' machines shares by express memory, and in which files. None:
    /// nothing.
    pub express: Option<(Form, Part)>,
    /// When packets are cut and joined that can be.
    pub cutting: bursts::Policy,
    /// The cores that the machines are pinned to, the first card's first; none if they are
    /// anywhere.
    pub cores: Vec<u16>,
    /// How long to look for work before sleeping.
    pub spin: Duration,
    /// Whether guest memory need not be sealed. A machine that cuts its own short ends the process
    /// then.
    pub trust_memory: bool,
}
