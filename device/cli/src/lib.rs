//! What the `hamlyn` program is made of, for the program itself and for the tests of its manual
//! pages.
//!
//! * [`commands`]: the program's commands, one file each
//!
//! What hosts cards is a crate of its own, `hamlyn-host`, and so are labs of virtual machines,
//! `hamlyn-lab`.

pub mod commands;
mod table;
mod users;
