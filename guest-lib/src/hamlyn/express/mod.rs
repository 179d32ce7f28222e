//! Express memory (`docs/express.md`): pages that processes of two hosts share, and access by loads
//! and stores alone.
//!
//! [`Card::create_express_area`](crate::Card::create_express_area) and
//! [`Card::map_express_area`](crate::Card::map_express_area) give the pages ([`Pages`]), for
//! applications that use a layout of their own in them. [`crate::channel`] sends messages through
//! such pages.
//!
//! [`Channel`] is for the simulation: the same ring, without files and calls that sleep. It is
//! woken through a manager, and connected by offers that the caller exchanges.

mod bell;
mod ground;
mod offer;
mod open;
mod receiver;
mod sender;

#[doc(hidden)]
pub use self::open::ChannelEnd;
#[doc(hidden)]
pub use self::receiver::{ChannelReceiver, Received};
#[doc(hidden)]
pub use self::sender::{ChannelSender, Reserved};
pub use crate::core::express::pages::{ExpressArea, ExpressView, PAGE, Pages};
pub use crate::core::express::ring::Nonsense;

/// A channel: both directions, and the connection that set it up.
///
/// The connection is closed gracefully once both ends are dropped, if the sender had been closed
/// and the receiver had received everything.
#[doc(hidden)]
#[derive(Debug)]
pub struct Channel {
    /// The end that sends to the peer.
    pub sender: ChannelSender,
    /// The end that receives from the peer.
    pub receiver: ChannelReceiver,
}
