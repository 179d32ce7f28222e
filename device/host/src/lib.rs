//! Host processes for cards: one card per process, or many cards and their switch in one process.
//!
//! | module | contents |
//! |---|---|
//! | [`catalogue`] | the models of the family, one line each |
//! | [`single`] | one card in a process: its event loop, and when it polls and sleeps |
//! | [`ensemble`] | cards and the switch between them in one process |
//! | [`switch`] | the switch in its own process |
//! | `station` | a card with its machine's server |
//! | `function` | the card as a PCI function on the bus |
//! | `express` | the function that exposes a card's express memory |
//! | `snooping` | the machine's stores that the card watches, and the plugin's socket |
//! | `clock` | the cards' clock, without the time when their process was stopped |
//! | `ports` | the card's ports, on top of the bus and the link |
//! | `uplink` | the link to the switch, which reconnects when the switch comes back |
//! | `reception` | a listening socket in an event loop |
//! | [`stat`] | counters of running processes |
//! | [`trace`] | what a card and its machine do, for readers |
//! | [`faults`] | what goes wrong by rule |
//! | [`rundir`] | the directory with the sockets of running processes |
//! | `signals`, `wait`, `limits` | shutdown by signals, event loop time-outs, process limits |
//!
//! No module here knows the command line. Only the catalogue names a model.

pub mod catalogue;
mod clock;
pub mod ensemble;
mod express;
pub mod faults;
#[cfg(test)]
mod fifo_card;
mod function;
mod limits;
mod ports;
mod reception;
pub mod rundir;
mod signals;
pub mod single;
mod snooping;
pub mod stat;
mod station;
pub mod switch;
pub mod trace;
mod uplink;
mod wait;

pub use limits::survive_file_size_limit;
pub use station::CardOptions;
