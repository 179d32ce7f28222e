//! What the simulation of any card is made of: a fabric of real links and a real switch, hosts that
//! are not there, and a seed that decides who goes next and what goes wrong.
//!
//! No card is named here, nor anything of guests. A model brings a [`world::Model`]: what its
//! machines are, what they do in their turn, what must be so when a packet arrives, and what must
//! be so at rest. From the bottom up, each file knowing only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `violation` | what a simulation finds |
//! | `rng` | the source of every decision |
//! | `clock` | time |
//! | `flight` | what is on its way in order, and may be lost with a port |
//! | `shared` | memory that others see as well |
//! | `memory` | host memory, and what of it a card may touch |
//! | `area` | its free pages, and lists of them |
//! | `window` | mapped BARs, and interrupt lines |
//! | `station` | a card among these |
//! | `driver` | power-on and commands, as a driver has them |
//! | `uplink` | its end of the link |
//! | `world` | hosts, switch, what has happened; what a model brings |
//! | `links` | packets between cards and switch; ports that go and come |
//! | `faults` | misfortunes that any model has, and their ends |
//! | `schedule` | who goes next; what holds when nobody has anything to do |
//! | `run` | a seed from its beginning to its end, and what is told of it |

pub(crate) mod area;
pub(crate) mod clock;
pub(crate) mod driver;
pub(crate) mod faults;
pub(crate) mod flight;
pub(crate) mod links;
pub(crate) mod memory;
pub(crate) mod rng;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod shared;
pub(crate) mod station;
pub(crate) mod uplink;
pub(crate) mod violation;
pub(crate) mod window;
pub(crate) mod world;

#[cfg(test)]
mod tests;
