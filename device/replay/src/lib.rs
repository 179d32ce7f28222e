//! Recordings of cards: every call of a card's methods with all that the card saw and did, and the
//! same calls made again, without a machine.
//!
//! A card is a state machine without a clock, a socket or memory of its own. Its ports are all that
//! it sees, so a card that gets the same calls with the same answers does the same again.
//!
//! | file | holds |
//! |---|---|
//! | `step` | the steps of a recording |
//! | `operation` | operations of a fetch-and-op, as bytes |
//! | `record` | a card whose calls are recorded |
//! | `file` | recordings as files |
//! | `image` | host memory and windows, as far as they are known |
//! | `ports` | ports that answer as the recording says |
//! | `player` | makes the calls, and compares what the card does |
//! | `events` | calls as events with names |
//! | `compare` | how two recordings differ, as their drivers see it |

pub mod compare;
pub mod events;
pub mod file;
mod image;
pub mod operation;
pub mod player;
mod ports;
pub mod record;
pub mod step;

#[cfg(test)]
mod tests;
