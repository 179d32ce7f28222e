//! The CLAN card's side of the contract: apertures and Tripwires (Riddoch and others, *Tripwire: a
//! synchronisation primitive for virtual memory mapped communication*).
//!
//! An *aperture* is a region of a host's memory that other hosts may access: by loads and stores to
//! a window of their card that is mapped to it, or by their card's DMA engine. A host may access it
//! if it holds the aperture's descriptor: host, number and key. A *Tripwire* fires when an access
//! that passes the card reads or writes memory that it watches.
//!
//! | BAR | what | how |
//! |---|---|---|
//! | 0 | [`registers`], and the family's | trapped |
//! | 1 | MSI-X table and pending bits | the bus's own |
//! | 2 | a page for each [`endpoint`], then the window pages | trapped |
//!
//! The card has no mappable memory, so all stores to it are posted. A load returns once earlier
//! stores have arrived.
//!
//! # Words
//! The unit of transfer is a word: an aligned piece of 8 bytes of an aperture, or a part of one. An
//! *access* is one store of at most a word, or one word of a DMA transfer. Packets are cut and
//! joined only between words, so each access arrives in one piece. Accesses of one host arrive in
//! the order in which they were made (PRAM, section 2.1).
//!
//! # Windows
//! Byte `i` of a window is byte `offset + i` of its aperture. Stores and loads are 1, 2, 4 or 8
//! bytes, naturally aligned. A load is a remote read: the processor stalls until the answer
//! arrives. If the read is refused, or the host does not answer in time, the load returns ones, and
//! the window's endpoint gets a fault. If the other host refuses a store, the fault follows a
//! little later.

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
