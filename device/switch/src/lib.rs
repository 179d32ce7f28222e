//! The switch: a non-blocking crossbar between the cards' links (the Hamlyn paper's section 2.8).
//!
//! | module | holds |
//! |---|---|
//! | [`crossbar`] | routing and arbitration, without sockets or events; its parts meet here |
//! | `crossbar::inputs` | rings from the cards, and the queue of those that may have packets |
//! | `crossbar::outputs` | outputs by port, and what each new one gets |
//! | `crossbar::transit` | how packets get from inputs to outputs: `direct` or `meshed` |
//! | `crossbar::direct` | the single step from ring to ring, with held packets |
//! | `crossbar::meshed` | the way through a mesh |
//! | `crossbar::groups` | copies of a packet for the members of a group |
//! | `crossbar::stalls` | detection of cards that accept nothing |
//! | [`bursts`] | packets that are cut while others wait, and joined again |
//! | [`counters`] | counters for people to read |
//! | [`owners`] | which user may have which port |
//! | `held` | packets that wait for an output without room |
//! | `output` | one output: ring, paths, held packets, and the stall check of its card |
//! | [`mesh`] | a two-dimensional mesh with wormhole routing, replacing the single step |
//! | [`paths`] | adaptive routing: several paths to one output |
//! | [`traffic`] | the protocols of the attached cards |
//! | [`ports`] | attaching and detaching of cards: listener, clients, bells |
//! | [`switch`] | the whole switch, on one descriptor for an event loop, and a loop of its own |

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
