//! Express memory (`docs/express.md`): channels between processes of two hosts that say everything
//! by loads and stores.
//!
//! A [`Channel`] has a ring of records in each direction, in pages that the two processes share and
//! nobody else: no card, no switch and no operating system is on the way of a message. Cards wake
//! who sleeps. It is opened by host and name, and tells of the peer's end, as
//! [`crate::protocol::stream::StreamPair`]s do. Where there is no express memory between the two
//! hosts the same calls go by messages.
//!
//! [`Card::create_express_area`](crate::Card::create_express_area) and
//! [`Card::map_express_area`](crate::Card::map_express_area) give the pages alone ([`Pages`]), for
//! who lays something else in them.
//!
//! ```no_run
//! use hamlyn::express::{Channel, ChannelListener, ChannelOptions};
//! use hamlyn::{Card, Manager};
//!
//! # fn serve() -> hamlyn::Result<()> {
//! let manager = Manager::create(&Card::open_default()?)?;
//! let listener = ChannelListener::bind(&manager, "echo", ChannelOptions::default())?;
//! let Channel { mut sender, mut receiver } = listener.accept(None)?;
//! while let Some(message) = receiver.recv()? {
//!     sender.send(&message.to_vec()?, None)?;
//! }
//! sender.close(None)?;
//! # Ok(())
//! # }
//! # fn ask() -> hamlyn::Result<()> {
//! # let manager = Manager::create(&Card::open_default()?)?;
//! let mut channel = Channel::connect(&manager, 1, "echo", ChannelOptions::default(), None)?;
//! let mut room = channel.sender.reserve(5, None)?;
//! room.write(0, b"hello")?;
//! room.commit()?;
//! println!("{} bytes came back", channel.receiver.recv()?.map_or(0, |message| message.len()));
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "tokio")]
mod asynchronous;
mod bell;
mod memory;
mod messages;
mod offer;
mod open;
mod receiver;
mod sender;

use std::io;

use crate::core::express::memory::capacity_for;
use crate::core::express::ring::HEADER;

#[cfg(feature = "tokio")]
pub use self::asynchronous::{ReadHalf, WriteHalf};
pub use self::open::{ChannelEnd, ChannelListener};
pub use self::receiver::{ChannelReceiver, Received};
pub use self::sender::{ChannelSender, Reserved};
pub use crate::core::express::pages::{ExpressArea, ExpressView, PAGE, Pages};
pub use crate::core::express::ring::Nonsense;

/// How a channel's end is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelOptions {
    /// Bytes of the ring that this end receives in, in whole pages: the longest message has 8 less.
    /// One page more is taken. All of them are of this host's half of what the two hosts share, 512
    /// KiB unless it was set up otherwise.
    pub capacity: u64,
    /// By messages, even if there is express memory.
    pub by_messages: bool,
}

impl Default for ChannelOptions {
    /// A ring of 60 KiB, so that an area has 16 pages; by express memory.
    fn default() -> Self {
        Self { capacity: 15 * PAGE as u64, by_messages: false }
    }
}

impl ChannelOptions {
    /// For messages of so many bytes and less.
    #[must_use]
    pub fn for_messages(longest: u64) -> Self {
        Self { capacity: capacity_for(longest), ..Self::default() }
    }
}

/// Bytes of a ring by these options: whole pages.
fn ring_for(capacity: u64) -> u64 {
    capacity_for(capacity.max(2 * HEADER) - HEADER)
}

/// A channel: both directions, and the connection that set it up. Its ends may go to different
/// threads.
///
/// Messages arrive once, in order, whole. When the peer's process or host dies, or the peer stores
/// what makes no sense, the receiver is told so behind all that came before. The connection is
/// closed gracefully once both ends are dropped, if the sender had been closed and the receiver had
/// received all.
#[derive(Debug)]
pub struct Channel {
    /// To the peer.
    pub sender: ChannelSender,
    /// From the peer.
    pub receiver: ChannelReceiver,
}

impl Channel {
    /// Whether it goes by express memory, and not by messages.
    #[must_use]
    pub fn is_express(&self) -> bool {
        self.sender.is_express()
    }
}

impl io::Read for Channel {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.receiver.read(to)
    }
}

impl io::Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sender.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut self.sender)
    }
}
