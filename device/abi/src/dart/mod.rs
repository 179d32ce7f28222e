//! The DART card's side of the contract: hybrid deposit (Osborne, *A Hybrid Deposit Model for Low
//! Overhead Communication in High Speed LANs*).
//!
//! A message does what its sender says to what the receiver keeps for it: bytes of an *endpoint*, a
//! region of a process' virtual memory, and *address registers* of the card. `docs/dart.md` says
//! what exactly.
//!
//! | BAR | what | how |
//! |---|---|---|
//! | 0 | [`registers`], and the family's | trapped |
//! | 1 | MSI-X table and pending bits | the bus's own |
//! | 2 | a page for each [`connection`] | trapped |
//!
//! The card has nothing to map, so all stores to it are posted: who wants to know that one has
//! arrived reads.

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
