//! Express memory (`docs/express.md`): pages shared with a process of another host, and the ring
//! that channels use in them.
//!
//! Any card can have express memory: the card only takes part in sleeping and waking. Each card's
//! module implements the wake-up.

#[cfg(feature = "test-hooks")]
pub mod bare;
pub(crate) mod memory;
pub(crate) mod pages;
pub(crate) mod ring;
