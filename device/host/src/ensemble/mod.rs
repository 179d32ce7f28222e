//! The fabric process: cards and the switch between them in one process, one thread at a time.
//!
//! A message takes one wake-up on its way, that of one thread here, where separate processes take three. What is given up
//! is that a card's process can fail, be limited or be killed alone; and that machines may lend any memory: here only what
//! they cannot take away. Guests and their processes are as protected from each other as before: the cards make the same
//! checks.
//!
//! * `args`: the flags
//! * `round`: the cards and the switch, and what is done in a round
//! * `roster`: which of the cards are looked at
//! * `ears`: the threads that hear the machines, and how they share the fabric
//! * `process`: the event loop

mod args;
mod ears;
mod process;
mod roster;
mod round;
#[cfg(test)]
mod tests;

pub use self::args::{FabricArgs, MOST_CORES};
pub use self::process::run;
