//! What every card is to the process that hosts it, and what any card stands on.
//!
//! A [`Card`](card::Card) is a pure state machine: it knows no socket, thread, clock or file
//! descriptor, and every call hands it its [`Ports`](ports::Ports). So the same code runs behind
//! QEMU, inside one process for tests and benchmarks, and under a simulation that decides every
//! interleaving. The cards themselves are crates of their own, which cannot see each other; what
//! they have in common is in [`chassis`].

pub mod card;
pub mod chassis;
pub mod model;
pub mod ordered;
pub mod ports;
