//! Faults by rule: a card whose events go wrong, so that its driver can be tested.
//!
//! Without rules a card has no [`hamlyn_faults::Faults`], and each of its calls makes one more
//! comparison. With rules, its ports are wrapped, and the machine's accesses and the packets that
//! arrive pass through the rules. So a card knows nothing of them, and a new model neither.
//!
//! | file | holds |
//! |---|---|
//! | `ports` | ports that fail by rule |
//! | `server` | the socket for programs that set rules |
//! | `client` | the program's side of it |

mod client;
mod ports;
mod server;

pub use client::{ask, processes, processes_of};
pub(crate) use ports::FaultyPorts;
pub(crate) use server::FaultServer;

#[cfg(test)]
mod tests;
