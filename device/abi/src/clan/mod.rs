//! The CLAN card's side of the contract: apertures and Tripwires (Riddoch and others, *Tripwire: a
//! synchronisation primitive for virtual memory mapped communication*).
//!
//! An *aperture* is a region of a host's memory that others may reach: by loads and stores to a
//! window of their card that is mapped to it, or by their card's DMA engine. A host that holds its
//! descriptor may: host, number and key. A *Tripwire* fires when what passes the card reads or
//! writes memory that it watches.
//!
//! | BAR | what | how |
//! |---|---|---|
//! | 0 | [`registers`], and the family's | trapped |
//! | 1 | MSI-X table and pending bits | the bus's own |
//! | 2 | a page for each [`endpoint`], then the window pages | trapped |
//!
//! The card has nothing to map, so all stores to it are posted: a load returns once the stores
//! before it have arrived.
//!
//! # Words
//! What passes is words, aligned pieces of 8 bytes of an aperture, or parts of one: an *access* is
//! one store of at most a word, or one word of a DMA transfer. Packets are cut and joined between
//! words alone, so each access arrives in one piece, and those of one host in the order in which
//! they were made (PRAM, section 2.1).
//!
//! # Windows
//! Byte `i` of a window is byte `offset + i` of its aperture. Stores and loads are 1, 2, 4 or 8
//! bytes, naturally aligned. A load is a remote read: the processor stands still until it is
//! answered. One that is refused, or whose host does not answer in time, reads as ones, and is a
//! fault of the window's endpoint; so is a store that the other host refuses, a little later.

pub mod aperture;
pub mod command;
pub mod dma;
pub mod endpoint;
pub mod event;
pub mod fifo;
pub mod identity;
pub mod registers;
pub mod statistics;
pub mod tripwire;
pub mod uapi;
pub mod wire;
