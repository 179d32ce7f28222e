//! The interface between a card and its host process, and the parts that all cards share.
//!
//! A [`Card`](card::Card) is a pure state machine. It owns no socket, thread, clock or file
//! descriptor, and every call gets its [`Ports`](ports::Ports). The same code therefore runs behind
//! QEMU, inside one process for tests and benchmarks, and under a simulation that decides every
//! interleaving. The cards themselves are separate crates and cannot see each other. Their common
//! code is in [`chassis`].

pub mod card;
pub mod chassis;
pub mod model;
pub mod ordered;
pub mod packet;
pub mod ports;
