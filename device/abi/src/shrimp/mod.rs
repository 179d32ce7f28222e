//! The SHRIMP card's side of the contract: stores that travel (Blumrich and others, 1994).
//!
//! A page of one host's memory is *mapped out* to a page of another's, where it is *mapped in*.
//! What a processor stores there the card sends, by itself (automatic update) or when it is told to
//! (deliberate update). What is mapped, and how, is in the card's page table, the NIPT, with an
//! [`entry`] for each page of the host's memory.
//!
//! | BAR | what | how |
//! |---|---|---|
//! | 0 | [`registers`], and the family's | trapped |
//! | 1 | MSI-X table and pending bits | the bus's own |
//! | 2 | [`memory`]: a command page for each page of the host's memory, then a window page for each | trapped |
//!
//! The card has nothing to map, so all stores to it are posted: who wants to know that one has
//! arrived reads.

pub mod arrival;
pub mod command;
pub mod entry;
pub mod identity;
pub mod memory;
pub mod registers;
pub mod statistics;
pub mod uapi;
pub mod wire;
