//! Stream (section 3.3): a one-way, one-to-one connection that delivers bytes in order, over a
//! fabric that may reorder.
//!
//! The receiver is created first. It has a number of buffers, each with a metadata entry. It gives
//! a [`crate::Seed`] with their tickets to the sender, which is created from the seed. Bytes arrive
//! as *records* and stay where they were deposited. A record is either bytes that the sender
//! coalesced until it was full or flushed, or a piece of a buffer that was sent unchanged. Record
//! boundaries have no meaning.
//!
//! # Order and flow control
//! Each message carries its number, and the receiver returns records in the order of their numbers.
//! Each message uses up a ticket. When the receiver releases records, it sends their count to the
//! sender. This returns their tickets, in the order in which they were used. A sender without
//! tickets waits. If the application holds all records, the receiver creates more buffers, up to a
//! limit.
//!
//! # The way back
//! With its first message the sender passes a ticket for a small slot of its own, with metadata
//! only. The counts go there. Each is the count of all records released so far. So no count depends
//! on the arrival of another, and several can be merged into one. With each message, the sender
//! reports how many counts it has taken in, so that the receiver can reuse their entries. This
//! cannot deadlock: a sender without a ticket sent its last message after it took in the count that
//! gave it that ticket, and reported it.
//!
//! # Protection
//! Entries are one-shot, so a record cannot change while it is held. Neither end can overrun the
//! other's queue, whatever it sends (section 2.7). A message that a correct peer would never send
//! ends the stream with [`crate::PeerLoss::Violation`].
//!
//! # The end
//! A sender closes gracefully (section 6.4): its last message is marked as the last. One ticket is
//! reserved for it, so that closing never waits for the receiver. A sender or receiver that is
//! dropped notifies its peer, if it can. Only the operating system learns that a process or host
//! has died (section 6.3). A [`StreamPair`] watches its connection for that; other code that learns
//! of it calls `peer_lost`.
//!
//! ```no_run
//! use hamlyn::protocol::stream::{StreamReceiver, StreamSender};
//! use hamlyn::{Card, Manager};
//!
//! # fn receive() -> hamlyn::Result<()> {
//! let manager = Manager::create(&Card::open_default()?)?;
//! let mut stream = StreamReceiver::create(&manager)?;
//! println!("give this to the sender: {}", stream.make_seed()?);
//! while let Some(record) = stream.recv()? {
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
//! stream.close()?;
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
