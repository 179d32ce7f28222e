//! Express memory (`docs/express.md`): channels between processes of two hosts that communicate
//! only by loads and stores.
//!
//! A [`Channel`] has a ring of records in each direction, in pages that only the two processes
//! share. No card, switch or operating system is on a message's path. The cards only wake sleepers.
//! A channel is opened by host and name, and reports the peer's end, like
//! [`crate::protocol::stream::StreamPair`]s. If there is no express memory between the two hosts,
//! the same calls use messages.
//!
//! [`Card::create_express_area`](crate::Card::create_express_area) and
//! [`Card::map_express_area`](crate::Card::map_express_area) give only the pages ([`Pages`]), for
//! applications that use another layout in them.
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

/// Options for a channel's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelOptions {
    /// Size in bytes of the ring that this end receives in, in whole pages. The longest message is
    /// 8 bytes shorter. One more page is allocated. All pages come from this host's half of the
    /// memory that the two hosts share. The half is 512 KiB by default.
    pub capacity: u64,
    /// Use messages, even if there is express memory.
    pub by_messages: bool,
}

impl Default for ChannelOptions {
    /// A ring of 60 KiB, so that an area has 16 pages. Uses express memory.
    fn default() -> Self {
        Self { capacity: 15 * PAGE as u64, by_messages: false }
    }
}

impl ChannelOptions {
    /// Returns options for messages of up to this number of bytes.
    #[must_use]
    pub fn for_messages(longest: u64) -> Self {
        Self { capacity: capacity_for(longest), ..Self::default() }
    }
}

/// Returns the ring size in bytes for these options, in whole pages.
fn ring_for(capacity: u64) -> u64 {
    capacity_for(capacity.max(2 * HEADER) - HEADER)
}

/// A channel: both directions, and the connection that set it up. Its ends may move to different
/// threads.
///
/// Messages arrive once, in order and complete. If the peer's process or host dies, or the peer
/// stores invalid data, the receiver gets an error after everything that arrived before. The
/// connection is closed gracefully once both ends are dropped, if the sender had been closed and
/// the receiver had received everything.
#[derive(Debug)]
pub struct Channel {
    /// The end that sends to the peer.
    pub sender: ChannelSender,
    /// The end that receives from the peer.
    pub receiver: ChannelReceiver,
}

impl Channel {
    /// Returns true if the channel uses express memory, and false if it uses messages.
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
