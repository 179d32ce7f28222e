//! What hosts cards: a process with one of them, or one with many and the switch between them.
//!
//! | module | holds |
//! |---|---|
//! | [`catalogue`] | the models of the family: a line for each |
//! | [`single`] | one card in a process: its event loop, and when it looks and when it sleeps |
//! | [`ensemble`] | cards and the switch between them in one process |
//! | [`switch`] | the switch in a process of its own |
//! | `station` | a card with its machine's server |
//! | `function` | the card as the bus sees it, a PCI function |
//! | `express` | the function that shows a card's express memory |
//! | `snooping` | what the card sees of its machine's stores, and the door of who tells of them |
//! | `clock` | the cards' time, in which their process never stood |
//! | `ports` | what the card reaches the world through, made of the bus and the link |
//! | `uplink` | the link to the switch, made anew when the switch comes back |
//! | [`stat`] | counters of running processes |
//! | [`rundir`] | where running processes keep their sockets |
//! | `signals`, `wait`, `limits` | how a process ends, how long its loop waits, what it sets for itself |
//!
//! Nothing here knows a command line, nor any model by name but the catalogue.

pub mod catalogue;
mod clock;
pub mod ensemble;
mod express;
#[cfg(test)]
mod fifo_card;
mod function;
mod limits;
mod ports;
pub mod rundir;
mod signals;
pub mod single;
mod snooping;
pub mod stat;
mod station;
pub mod switch;
mod uplink;
mod wait;

pub use limits::survive_file_size_limit;
pub use station::CardOptions;
