//! What any card of the family stands on: all that is behind [`hamlyn_abi::family`].
//!
//! | part | file |
//! |---|---|
//! | the family's registers: identity, link, interrupts, control | `registers` |
//! | the command page, and why a command is refused | `command`, `refusal` |
//! | the handshake timer of a host that may die | `handshake` |
//! | host memory by page lists | `area` |
//! | objects that a driver opens and closes | `table` |
//! | who sleeps, and what wakes them | `sleeper` |
//! | what the driver is to look after | `fifo` |
//! | counters | `counters` |
//!
//! A model has a [`Chassis`] among its fields, asks it first what a register says, and does itself
//! what is its own.

pub mod area;
pub mod command;
pub mod counters;
pub mod fifo;
mod handshake;
pub mod refusal;
mod registers;
pub mod sleeper;
pub mod table;

pub use registers::{Chassis, Plate, Written};
