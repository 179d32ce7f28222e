//! Channels: complete, ordered messages between two processes, with the same interface on every
//! card.
//!
//! A [`Channel`] is opened by host and name, or by name alone. It has a [`Sender`] and a
//! [`Receiver`], which may be moved to different threads. [`Card::open_any`] opens any card of the
//! machine; nothing else in a program depends on the model.
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
//! # Event loops
//! Each half has a file of its own ([`Receiver::file`], [`Sender::file`]), which reports messages
//! or room, and the peer's end. Call [`Receiver::arm`] before each wait:
//!
//! ```no_run
//! # use hamlyn::channel::Receiver;
//! # fn wait(file: std::os::fd::BorrowedFd<'_>) {}
//! # fn serve(receiver: &mut Receiver) -> hamlyn::Result<()> {
//! loop {
//!     match receiver.try_recv() {
//!         Ok(Some(message)) => {
//!             println!("{} bytes", message.len());
//!             continue;
//!         }
//!         Ok(None) => return Ok(()),
//!         Err(error) if error.is_would_block() => {}
//!         Err(error) => return Err(error),
//!     }
//!     if !receiver.arm()? {
//!         // By poll(2), epoll(7) or mio, with the files of other channels.
//!         wait(receiver.file()?);
//!     }
//! }
//! # }
//! ```
//!
//! With the feature `tokio`, `asynchronous` has both halves as futures and byte streams.
//!
//! # Guarantees
//! - Each message arrives once, in order and complete, or the channel ends with an error.
//! - A sender has credit for the receiver's ring, so a program that stops reading blocks only its
//!   own peer.
//! - [`crate::PeerLoss`] tells how the peer ended, and is reported after everything the peer had
//!   sent. The peer closed (`None`), abandoned the channel or stored nonsense; or its process died;
//!   or its host is lost or was restarted; or this host's link is lost or its card was reset.
//!
//! # Transports
//! | card | message | arrival is detected by | a sleeper is woken by |
//! |---|---|---|---|
//! | any, with express memory | direct store | a word in the same memory | a message of the card |
//! | Hamlyn | deposit into a slot over the ring | packet counting | a notification |
//! | SHRIMP | deliberate update | automatic update | the report of an arrival |
//! | CLAN | RDMA into a distributed queue | the last element of the DMA chain | a Tripwire |
//! | DART | store, indirect, postincrement | a record of the receiver's queue | the queue |
//! | echo | messages to a mailbox, which the library copies | the last message | the mailbox |
//!
//! With express memory the sender stores the message directly where the receiver reads it.

#[cfg(feature = "tokio")]
pub mod asynchronous;
mod card;
mod express;
mod ground;
mod neighbour;
mod offer;
mod open;
mod receiver;
mod receiving;
mod remote;
mod sender;
mod sending;
#[cfg(test)]
mod tests;
mod waiting;

use crate::core::place::PAGE;

pub use self::card::Card;
#[doc(hidden)]
pub use self::neighbour::is_device_of_card;
#[cfg(feature = "test-hooks")]
pub use self::open::End;
pub use self::open::{Listener, Opening};
pub use self::receiver::{Message, Receiver};
pub use self::sender::{Room, Sender};

/// Options of this end of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Size in bytes of the ring in each direction, in whole pages. Both directions use the smaller
    /// of the two ends' requests. The longest message is half of the ring minus 8 bytes. A Hamlyn
    /// card's channel has at most 128 messages under way, however short they are. The largest ring
    /// has 16 MiB minus a page; an echo card's, 488 KiB.
    pub capacity: u64,
    /// Uses the card even if the two hosts share express memory.
    pub by_card: bool,
}

impl Default for Options {
    /// Returns options with a ring of 60 KiB, for messages of up to 30,712 bytes.
    fn default() -> Self {
        Self { capacity: 15 * PAGE as u64, by_card: false }
    }
}

impl Options {
    /// Returns options for messages of at most `longest` bytes.
    #[must_use]
    pub fn for_messages(longest: u64) -> Self {
        let ring = longest.saturating_add(16).saturating_mul(2);
        Self { capacity: ring.checked_next_multiple_of(PAGE as u64).unwrap_or(u64::MAX), ..Self::default() }
    }
}

/// A channel in both directions. Its halves may be moved to different threads.
#[derive(Debug)]
pub struct Channel {
    /// To the peer.
    pub sender: Sender,
    /// From the peer.
    pub receiver: Receiver,
}
