//! The Hamlyn card's side of the contract: the layout of the paper's structures.
//!
//! The card has four base address registers:
//!
//! | BAR | what | how |
//! |---|---|---|
//! | 0 | [`registers`], and the family's | trapped |
//! | 1 | MSI-X table and pending bits | the bus's own |
//! | 2 | [`window`]: a window for each send terminus, then the queue control page | shared memory |
//! | 4 | [`window`]: a doorbell page for each send terminus | trapped |

pub mod command;
pub mod identity;
pub mod metadata;
pub mod notification;
pub mod registers;
pub mod request;
pub mod sram;
pub mod statistics;
pub mod uapi;
pub mod window;
