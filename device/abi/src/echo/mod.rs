//! The echo card's side of the contract: an example card, made to be read and copied.
//!
//! A program fills in a message in its mailbox's *outbox*, a page of the card's memory that it has
//! mapped, and rings the doorbell. The other host's card deposits the message in the *inbox* of a
//! mailbox there, a ring in that host's memory.
//!
//! | BAR | what | how |
//! |---|---|---|
//! | 0 | [`registers`], and the family's | trapped |
//! | 1 | MSI-X table and pending bits | the bus's own |
//! | 2 | [`window`]: an outbox for each mailbox, then the control page | shared memory |
//! | 4 | [`window`]: a doorbell page for each mailbox | trapped |

pub mod command;
pub mod identity;
pub mod inbox;
pub mod registers;
pub mod statistics;
pub mod uapi;
pub mod window;
