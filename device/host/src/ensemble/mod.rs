//! `hamlyn fabric`: cards and the switch between them in one process, one thread at a time.
//!
//! The code calls them an ensemble. A fabric is what carries packets, within this process or
//! between processes.
//!
//! A message causes one wake-up on its way, that of one thread here. Separate processes need three.
//! In exchange, a card's process can no longer fail, be limited or be killed alone. Machines also
//! cannot lend any kind of memory, only memory that they cannot take away. Guests and their
//! processes are protected from each other as before: the cards make the same checks.
//!
//! * `round`: the cards and the switch, and the work of a round
//! * `roster`: which of the cards are polled
//! * `pollers`: the threads that handle the machines' messages, and how they share the ensemble
//! * `process`: the event loop

mod pollers;
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

/// Start options of the process.
#[derive(Debug, Clone)]
pub struct Options {
    /// Each card's options, and where its machine connects.
    pub cards: Vec<(CardOptions, PathBuf)>,
    /// Number of the switch's paths to each card.
    pub paths: u16,
    /// A mesh that carries packets instead of paths.
    pub mesh: Option<Shape>,
    /// The size and form of the express memory shared by each pair of cards' machines. `None` for
    /// no express memory.
    pub express: Option<(Form, Part)>,
    /// When packets are split and joined, if their model allows it.
    pub cutting: bursts::Policy,
    /// The cores that the machines are pinned to, in the order of the cards. Empty if the machines
    /// are not pinned.
    pub cores: Vec<u16>,
    /// How long to poll for work before sleeping.
    pub spin: Duration,
    /// Whether unsealed guest memory is accepted. A machine that truncates its memory then ends the
    /// process.
    pub trust_memory: bool,
}
