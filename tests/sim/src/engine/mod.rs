//! The parts that the simulations of all cards share: a fabric of real links and a real switch,
//! simulated hosts, and a seed. The seed decides the schedule and the faults.
//!
//! No card model is named here, nor anything of guests. A model implements [`world::Model`]: its
//! machines, what they do in their turn, and the checks when a packet arrives and at rest. From the
//! bottom up, where each file uses only those above it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `violation` | the error that a simulation reports |
//! | `rng` | the source of every decision |
//! | `events` | the recent events, for the report |
//! | `clock` | time |
//! | `flight` | packets in flight, in order, that may be lost with a port |
//! | `shared` | memory that is also mapped elsewhere |
//! | `memory` | host memory, and the ranges that a card may access |
//! | `area` | its free pages, and lists of them |
//! | `window` | mapped BARs, and interrupt lines |
//! | `station` | a card with these around it |
//! | `driver` | power-on and commands of a driver |
//! | `uplink` | its end of the link |
//! | `world` | hosts, links, switch, faults; the interface of a model |
//! | `schedule` | the order of turns; detection of rest |
//! | `run` | a whole run of a seed, and its report |

pub(crate) mod area;
pub(crate) mod clock;
pub(crate) mod driver;
pub(crate) mod events;
pub(crate) mod flight;
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
