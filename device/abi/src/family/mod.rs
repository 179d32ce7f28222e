//! What all cards of the family share.
//!
//! Any card has a BAR 0 of registers, and these are in it:
//!
//! | registers | what |
//! |---|---|
//! | [`identity`] | which card it is |
//! | [`link`] | its place on the switch |
//! | [`interrupts`] | MSI-X vectors, and their self-test |
//! | [`control`] | taking part, reset, the handshake timer |
//! | [`command`] | the command page |
//!
//! A card may have memory that it shares with other hosts' cards, in functions beside it
//! ([`express`]).
//!
//! Commands name host memory by page lists ([`area`]); who sleeps says so in words of a window
//! ([`sleep`]). All else is the model's.

pub mod area;
pub mod command;
pub mod control;
pub mod express;
pub mod identity;
pub mod interrupts;
pub mod link;
pub mod sleep;
