//! Stream (section 3.3): a one-way, one-to-one connection that delivers bytes in order, over a
//! fabric that may not.
//!
//! The receiver is made first. It has a number of buffers, each with a metadata entry, and gives a
//! [`crate::Seed`] with their tickets to the sender, which grows from it. Bytes arrive as
//! *records*, where they were deposited: a record is what the sender coalesced until it was full or
//! flushed, or a piece of a buffer that went as it was. Where one record ends and the next begins
//! means nothing.
//!
//! # Order, and who may send
//! Each message carries its number, and the receiver hands records out by their numbers. A message
//! takes a ticket; when the receiver releases records, it tells their count to the sender, and so
//! returns their tickets, in the order in which they were used. A sender that is out of tickets
//! waits. If the application holds on to all records, the receiver makes more buffers, up to a
//! limit.
//!
//! # The way back
//! With its first message the sender hands over a ticket for a small slot of its own, of metadata
//! alone. Counts go there, of all records released so far, so none depends on another's arrival,
//! and several become one. The sender in turn tells, with each message, how many of these it has
//! taken in, so that the receiver can use their entries again. It cannot come to a stop: a sender
//! that has no ticket has sent its last message after it took in whatever gave it the ticket, and
//! said so.
//!
//! # Protection
//! Entries are one-shot, so a record cannot change while it is held, and neither end can overrun
//! the other's queue, whatever it sends (section 2.7). What no honest end sends ends the stream
//! with [`crate::PeerLoss::Violation`].
//!
//! # The end
//! A sender closes gracefully (section 6.4): the last message says that it is the last. One ticket
//! is kept for it, so that closing never waits for the receiver. A sender or receiver that is
//! dropped says so, if it can. Of a process or host that dies only the operating system knows
//! (section 6.3): a [`StreamPair`] watches its connection, and whoever else learns of it calls
//! `peer_lost`.
//!
//! ```no_run
//! use hamlyn::protocol::stream::{StreamReceiver, StreamSender};
//! use hamlyn::{Card, Manager};
//!
//! # fn receive() -> hamlyn::Result<()> {
//! let manager = Manager::create(&Card::open_default()?)?;
//! let mut stream = StreamReceiver::create(&manager)?;
//! println!("give this to the sender: {}", stream.make_seed()?);
//! while let Some(record) = stream.receive(None)? {
//!     println!("{} bytes", record.len());
//!     let number = record.number();
//!     stream.release(number)?;
//! }
//! # Ok(())
//! # }
//! # fn send(seed: &str) -> hamlyn::Result<()> {
//! let manager = Manager::create(&Card::open_default()?)?;
//! let mut stream = StreamSender::from_seed(&manager, &seed.parse()?)?;
//! stream.send(b"small sends")?;
//! stream.send(b" become one record")?;
//! stream.flush()?;
//! stream.close(None)?;
//! # Ok(())
//! # }
//! ```

mod pair;
mod receiver;
mod records;
mod sender;
mod tickets;
mod wire;

pub use pair::{StreamListener, StreamPair, StreamRequest};
pub use receiver::{StreamOptions, StreamReceiver};
pub use records::Record;
pub use sender::StreamSender;
