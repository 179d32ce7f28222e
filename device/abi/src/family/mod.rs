//! What all cards of the family share.
//!
//! Every card has a BAR 0 of registers with these groups:
//!
//! | registers | what |
//! |---|---|
//! | [`identity`] | which card it is |
//! | [`link`] | its place on the switch |
//! | [`interrupts`] | MSI-X vectors, and their self-test |
//! | [`control`] | enable, reset, the handshake timer |
//! | [`command`] | the command page |
//!
//! A card may have memory that it shares with other hosts' cards, in additional functions
//! ([`express`]).
//!
//! Commands name host memory by page lists ([`area`]). The words of a window that show which
//! objects have sleeping owners are in [`sleep`]. Everything else depends on the model.

pub mod area;
pub mod command;
pub mod control;
pub mod express;
pub mod identity;
pub mod interrupts;
pub mod link;
pub mod sleep;
