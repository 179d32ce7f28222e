//! What the `hamlyn` program is made of, for the program itself and for the tests that use real virtual machines.
//!
//! * [`card`]: the card process, one for each virtual machine
//! * [`fabric`]: cards and the switch between them in one process
//! * [`lab`]: a switch, cards and virtual machines that come up together and leave nothing behind
//! * [`stat`]: counters of running cards and switches
//! * [`rundir`]: where running processes keep their sockets
//! * [`plain`]: what guests say, made fit to be shown
//! * [`commands`]: the program's commands, one file each

pub mod card;
pub mod commands;
pub mod fabric;
pub mod lab;
mod limits;
pub mod plain;
pub mod rundir;
pub mod stat;
mod table;
mod users;
