//! The switch: a non-blocking crossbar between the cards' links (the Hamlyn paper's section 2.8).
//!
//! | module | holds |
//! |---|---|
//! | [`crossbar`] | routing and arbitration, without a socket or an event |
//! | [`bursts`] | packets that are cut while others wait, and joined again |
//! | [`counters`] | what a person can read of it |
//! | [`owners`] | who may have which port |
//! | `held` | packets that wait for an output without room |
//! | `output` | one output: ring, paths, what waits, and whether its card takes anything |
//! | [`mesh`] | a two-dimensional mesh with wormhole routing, in place of the crossbar's one step |
//! | [`paths`] | adaptive routing: several paths to one output |
//! | [`traffic`] | whose packets it carries |
//! | [`ports`] | how cards come and go: listener, clients, bells |
//! | [`switch`] | the whole, on one descriptor for an event loop, and a loop for those who have none |

pub mod bursts;
mod chance;
pub mod counters;
pub mod crossbar;
mod held;
pub mod mesh;
mod output;
pub mod owners;
pub mod paths;
pub mod ports;
mod refusal;
pub mod switch;
pub mod traffic;

pub use hamlyn_fabric::express::{Form, MOST_HOSTS, Part, ShapeError};

pub use counters::{PortCounters, SwitchCounters};
pub use crossbar::{Crossbar, Lost, Refusal};
pub use owners::Policy;
pub use switch::{Options, Switch, SwitchError};
