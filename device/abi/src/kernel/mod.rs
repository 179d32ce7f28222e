//! What the operating systems of two hosts say to each other, to set connections up and watch over
//! them (section 6.3).
//!
//! No card looks at it, nor does the library, but where it stands in for a driver at a card's
//! socket.

pub mod express;
pub mod well_known;
pub mod wire;
