//! The SHRIMP card's side of the contract: stores that travel (Blumrich and others, 1994).
//!
//! A page of one host's memory is *mapped out* to a page of another host's, where it is *mapped
//! in*. The card sends what a processor stores there, either by itself (automatic update) or on
//! command (deliberate update). The card's page table, the NIPT, defines what is mapped and how,
//! with an [`entry`] for each page of the host's memory.
//!
//! | BAR | what | how |
//! |---|---|---|
//! | 0 | [`registers`], and the family's | trapped |
//! | 1 | MSI-X table and pending bits | the bus's own |
//! | 2 | [`memory`]: command pages, then window pages, one of each per host page | trapped |
//!
//! The card has no mappable memory, so all stores to it are posted. To make sure that a store has
//! arrived, read.

pub mod arrival;
pub mod command;
pub mod entry;
pub mod identity;
pub mod memory;
pub mod registers;
pub mod statistics;
pub mod uapi;
pub mod wire;
