//! What the `hamlyn` program is made of, for the program itself and for the tests that use real virtual machines.
//!
//! * [`lab`]: a switch, cards and virtual machines that come up together and leave nothing behind
//! * [`plain`]: what guests say, made fit to be shown
//! * [`commands`]: the program's commands, one file each
//!
//! What hosts cards is a crate of its own, `hamlyn-host`.

pub mod commands;
pub mod lab;
pub mod plain;
mod table;
mod users;
