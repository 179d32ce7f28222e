//! The parts that all cards of the family share: the implementation of [`hamlyn_abi::family`].
//!
//! | part | file |
//! |---|---|
//! | the family's registers: identity, link, interrupts, control | `registers` |
//! | the command page, and reasons for refusing a command | `command`, `refusal` |
//! | the handshake timer, for hosts that crash | `handshake` |
//! | host memory by page lists | `area` |
//! | objects that a driver opens and closes | `table` |
//! | sleeping drivers and their wake-up | `sleeper` |
//! | FIFO of objects that need the driver's attention | `fifo` |
//! | counters | `counters` |
//!
//! A model has a [`Chassis`] as a field. It passes register accesses to the chassis first, and
//! handles only its own registers itself.

pub mod area;
pub mod command;
pub mod counters;
pub mod fifo;
mod handshake;
pub mod refusal;
mod registers;
pub mod sleeper;
pub mod table;

pub use registers::{Chassis, Constants, Written};
