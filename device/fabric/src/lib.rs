//! The fabric between cards: what a packet looks like, and the link that carries it.
//!
//! A [`Link`] is a pair of [rings](ring) in memory that a card and its switch share, one for each
//! direction. The fabric never loses a packet, and reorders the packets of one sender to one
//! receiver only where the switch has several paths; a full ring is the link-level back-pressure of
//! the Hamlyn paper's section 2.8.
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | the common packet header, of which the guest never knows |
//! | [`index`] | how far each side of a ring is, and which of them sleeps: the protocol that loom explores |
//! | [`stop`] | which destinations a ring's consumer wants nothing for; loom explores it, too |
//! | [`groups`] | of which groups a card is a member; so is this |
//! | `place` | where all that lies in shared memory |
//! | [`ring`] | variable-sized records on top of it |
//! | [`memory`] | the memory that both sides map |
//! | [`express`] | express memory, which cards' machines share beside all of this |
//! | [`message`] | messages that carry descriptors |
//! | [`bell`] | the wake-up of the ends of a link |
//! | [`link`] | two rings and a bell |
//! | [`attach`] | how a card's process gets its end of a link from a switch |
//!
//! The process at the other end is not trusted. Whatever it writes into the shared memory, the
//! worst that comes of it is a [`RingError`], which ends the link.

pub mod attach;
pub mod bell;
pub mod express;
pub mod groups;
pub mod header;
pub mod index;
pub mod link;
pub mod memory;
pub mod message;
mod place;
pub mod ring;
pub mod stop;

pub use attach::{Attached, ConnectError, Request, connect, connect_to};
pub use bell::{Bell, Heard, Reason};
pub use header::{Header, HeaderError, HostId, Protocol, Traffic};
pub use link::Link;
pub use ring::{Consumer, Geometry, Producer, Record, RingError};
