//! Traces and recordings: what a card and its machine do, recorded while a reader is connected.
//!
//! Without a reader a card has no [`Tap`], and each of its verbs costs a comparison or two. A
//! reader connects to the process's trace socket and gets a ring for each card, in shared memory.
//! The card's ports are then wrapped, so that a card is traced without knowing it, and a new model,
//! too. The card never waits for the reader: what does not fit is dropped and counted.
//!
//! | file | holds |
//! |---|---|
//! | `recorder` | a card's recorder |
//! | `ports` | ports that record what the card does with them |
//! | `server` | the socket for readers |
//! | `client` | the reader's side of it |

mod client;
mod ports;
mod recorder;
mod server;

pub use client::{Source, sources};
pub(crate) use ports::{TracedLink, TracedPorts};
pub(crate) use recorder::{Tap, record};
pub(crate) use server::TraceServer;

#[cfg(test)]
mod tests;
