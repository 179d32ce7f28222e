//! The cards, as pure state machines.
//!
//! A [`Card`](card::Card) knows no socket, thread, clock or file descriptor: every call hands it its
//! [`Ports`](ports::Ports). So the same code runs behind QEMU, inside one process for tests and benchmarks, and under
//! a simulation that decides every interleaving. Models never import each other.

pub mod card;
pub mod hamlyn;
pub mod model;
pub mod ports;
