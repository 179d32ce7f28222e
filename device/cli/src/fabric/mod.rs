//! The fabric process: cards and the switch between them in one process, on one thread.
//!
//! A message takes one wake-up on its way, that of this process, where separate processes take three. What is given up
//! is that a card's process can fail, be limited or be killed alone: who runs one machine's QEMU, and takes the
//! memory away that it lent, takes all cards down. Guests and their processes are as protected from each other as before:
//! the cards make the same checks.
//!
//! * `args`: the flags
//! * `process`: the event loop

mod args;
mod process;

pub use self::args::FabricArgs;
pub use self::process::run;
