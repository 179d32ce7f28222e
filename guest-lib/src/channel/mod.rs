//! Channels: messages between two processes, in order and whole, the same by every card.
//!
//! A [`Channel`] is opened by host and name, or by a name alone, and has a [`Sender`] and a
//! [`Receiver`], which may go to different threads. [`Card::open_any`] opens whatever card the
//! machine has; nothing else in a program depends on the model.
//!
//! ```no_run
//! use hamlyn::channel::{Card, Channel, Listener, Options};
//!
//! # fn serve() -> hamlyn::Result<()> {
//! let listener = Listener::bind(&Card::open_any()?, "echo", Options::default())?;
//! let Channel { mut sender, mut receiver } = listener.accept()?;
//! while let Some(message) = receiver.recv()? {
//!     sender.send(&message.to_vec()?)?;
//! }
//! sender.close()?;
//! # Ok(())
//! # }
//! # fn ask() -> hamlyn::Result<()> {
//! let mut channel = Channel::connect_any(&Card::open_any()?, "echo", Options::default())?;
//! channel.sender.send(b"hello")?;
//! println!("{} bytes came back", channel.receiver.recv()?.map_or(0, |message| message.len()));
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! - Each message arrives once, in order and whole, or the channel ends with an error.
//! - A sender has credit for the receiver's ring, so a program that stops reading makes no one wait
//!   but its own peer.
//! - How the peer ended is told apart ([`crate::PeerLoss`]), after all that it had sent: closed
//!   (`None`), abandoned, its process died, its host is lost, the link is lost, or it stored
//!   nonsense.
//!
//! # What carries it
//! | card | a message | the word that tells of it | a sleeper is woken by |
//! |---|---|---|---|
//! | any two hosts with express memory | is stored where the receiver reads it | in the same memory | a message of the card |
//! | Hamlyn | by a stream of deposits into slots | packet counting | a notification |
//! | SHRIMP | by deliberate update | by automatic update | the report of an arrival |
//! | CLAN | by RDMA into a distributed queue | the last element of the DMA chain | a Tripwire |
//! | DART | by store, indirect, postincrement | a record of the receiver's queue | the queue |

mod card;
mod offer;
mod open;
mod receiver;
mod remote;
mod sender;
#[cfg(test)]
mod tests;

use crate::core::place::PAGE;

pub use self::card::Card;
pub use self::open::Listener;
pub use self::receiver::{Message, Receiver};
pub use self::sender::{Room, Sender};

/// How this end of a channel is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Bytes of the ring in each direction, in whole pages. Both directions have the smaller of
    /// what the two ends ask for, and the longest message is half of that without 8 bytes.
    pub capacity: u64,
    /// By the card, even if the two hosts share express memory.
    pub by_card: bool,
}

impl Default for Options {
    /// A ring of 60 KiB, for messages of up to 30,712 bytes.
    fn default() -> Self {
        Self { capacity: 15 * PAGE as u64, by_card: false }
    }
}

impl Options {
    /// Returns options for messages of `longest` bytes and less.
    #[must_use]
    pub fn for_messages(longest: u64) -> Self {
        let ring = longest.saturating_add(16).saturating_mul(2);
        Self { capacity: ring.checked_next_multiple_of(PAGE as u64).unwrap_or(u64::MAX), ..Self::default() }
    }
}

/// A channel: both directions. Its halves may go to different threads.
#[derive(Debug)]
pub struct Channel {
    /// To the peer.
    pub sender: Sender,
    /// From the peer.
    pub receiver: Receiver,
}
