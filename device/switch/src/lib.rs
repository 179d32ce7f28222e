//! The switch: a non-blocking crossbar between the cards' links (the Hamlyn paper's section 2.8).
//!
//! | module | holds |
//! |---|---|
//! | [`crossbar`] | routing and arbitration, without a socket or an event |
//! | [`counters`] | what a person can read of it |
//! | [`owners`] | who may have which port |
//! | `held` | packets that wait for an output without room |
//! | `output` | one output: ring, paths, what waits, and whether its card takes anything |
//! | [`paths`] | adaptive routing: several paths to one output |
//! | [`ports`] | how cards come and go: listener, handshakes, bells |
//! | [`switch`] | the whole, on one descriptor for an event loop, and a loop for those who have none |

pub mod counters;
pub mod crossbar;
mod held;
mod output;
pub mod owners;
pub mod paths;
pub mod ports;
mod refusal;
pub mod switch;

pub use counters::{PortCounters, SwitchCounters};
pub use crossbar::{Crossbar, Lost, Refusal};
pub use owners::Policy;
pub use switch::{Options, Switch, SwitchError};
