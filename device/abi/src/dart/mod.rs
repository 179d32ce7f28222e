//! The DART card's side of the contract: hybrid deposit (Osborne, *A Hybrid Deposit Model for Low
//! Overhead Communication in High Speed LANs*).
//!
//! The effect of a message depends on what its sender specifies, and on the state that the receiver
//! keeps for it. This state is the bytes of an *endpoint*, which is a region of a process' virtual
//! memory, and *address registers* of the card. `docs/dart.md` defines the exact semantics.
//!
//! | BAR | what | how |
//! |---|---|---|
//! | 0 | [`registers`], and the family's | trapped |
//! | 1 | MSI-X table and pending bits | the bus's own |
//! | 2 | a page for each [`connection`] | trapped |
//!
//! The card has no mappable memory, so all stores to it are posted. To make sure that a store has
//! arrived, read.

pub mod command;
pub mod connection;
pub mod control;
pub mod fifo;
pub mod identity;
pub mod queue;
pub mod registers;
pub mod statistics;
pub mod trap;
pub mod uapi;
pub mod wire;
