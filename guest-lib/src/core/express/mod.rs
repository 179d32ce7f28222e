//! Express memory (`docs/express.md`): pages that a process of another host shares, and the ring
//! that channels lay in them.
//!
//! It is any card's: the card is on the way of sleep alone, and how to wake each other is the
//! card's module's.

pub mod bare;
pub(crate) mod memory;
pub(crate) mod pages;
pub(crate) mod ring;
