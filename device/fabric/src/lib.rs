//! The fabric between cards: the packet format, and the link that carries packets.
//!
//! A [`Link`] is a pair of [rings](ring), one for each direction, in memory that a card and its
//! switch share. The fabric never loses a packet. It reorders the packets of one sender to one
//! receiver only where the switch has several paths. A full ring is the link-level back-pressure of
//! the Hamlyn paper's section 2.8.
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | the common packet header, which the guest never sees |
//! | [`index`] | the positions and sleep flags of a ring's two sides; checked with loom |
//! | [`stop`] | the destinations that a ring's consumer has stopped; checked with loom |
//! | [`groups`] | a card's group memberships; checked with loom |
//! | `geometry`, `place` | a ring's sizes, and the layout of all of these in shared memory |
//! | [`ring`] | variable-sized records on top of the indices |
//! | [`memory`] | the memory that both sides map |
//! | [`express`] | express memory, which machines share directly, bypassing the rings |
//! | [`message`] | messages that carry descriptors |
//! | [`bell`] | the wake-up between the ends of a link |
//! | [`link`] | two rings and a bell |
//! | [`one_way`] | one ring without a bell, for a reader that the writer does not wait for |
//! | [`attach`] | how a card's process gets its end of a link from a switch |
//!
//! The process at the other end is not trusted. Whatever it writes into the shared memory, the
//! worst result is a [`RingError`], which ends the link.

pub mod attach;
pub mod bell;
mod error;
pub mod express;
mod geometry;
pub mod groups;
pub mod header;
pub mod index;
pub mod link;
pub mod memory;
pub mod message;
pub mod one_way;
mod place;
pub mod ring;
pub mod stop;

pub use attach::{Attached, ConnectError, Request, connect, connect_to};
pub use bell::{Bell, Heard, Reason};
pub use error::RingError;
pub use geometry::{Geometry, GeometryError};
pub use header::{Header, HeaderError, HostId, Protocol, Traffic};
pub use link::Link;
pub use ring::{Consumer, Producer, Record};
