//! Messages between the operating systems of two hosts, to set connections up and monitor them
//! (section 6.3).
//!
//! No card looks at them. The library does only where it replaces a driver, at a card's socket.

pub mod express;
pub mod well_known;
pub mod wire;
