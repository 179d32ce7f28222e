//! The parts of the `hamlyn` program, for the program itself and for the tests of its manual pages.
//!
//! * [`commands`]: the program's commands, one file each
//!
//! Separate crates host cards (`hamlyn-host`) and run labs of virtual machines (`hamlyn-lab`).

pub mod commands;
mod table;
mod users;
