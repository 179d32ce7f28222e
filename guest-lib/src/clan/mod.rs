//! The CLAN card: memory of other hosts, and Tripwires that fire when it is touched (Riddoch and
//! others, *Tripwire: a synchronisation primitive for virtual memory mapped communication*).
//!
//! | paper | section | here |
//! |---|---|---|
//! | aperture, and the opaque descriptor (RDMA cookie) | 3.2 | [`Aperture`], [`Descriptor`] |
//! | mapping of a remote aperture; programmed I/O | 2.1 | [`Endpoint::map`], [`Window`] |
//! | multicast | 2.5 | [`Card::join_group`], [`Descriptor::of_group`] |
//! | Tripwire: local or remote, reads or writes, a range, once only | 2.5, 3.3 | [`Watch`], [`Endpoint::tripwire`] |
//! | test, wait; at user level | 3.3 | [`Tripwire::test`], [`Tripwire::wait`], [`Tripwire::wait_until`] |
//! | Tripset | 3.3 | [`Tripset`] |
//! | endpoint; 40-byte out-of-band messages | 3.1 | [`Endpoint`], [`Endpoint::send_message`], [`Endpoint::message`] |
//! | connections: set-up, tear-down, exceptional conditions | 3.1 | [`Endpoint::connect`], [`Endpoint::accept`], [`Connection`] |
//! | endpoints that are cached and used again | 3.1 | [`EndpointCache`] |
//! | DMA requests in a shared queue; by the driver, for comparison | 3.4 | [`Dma`], [`Transfer`]; [`EndpointBuilder::drivers_dma`] |
//! | asynchronous event queue; readable when not empty | 3.5 | [`EventQueue`] |
//! | message transfer, RPC, distributed queue, and what may be made of them | 4 | [`programs`] |
//!
//! ```no_run
//! use hamlyn::clan::{Card, Descriptor, Rights, Watch};
//!
//! let card = Card::open_default()?;
//! let (endpoint, aperture) = (card.endpoint()?, card.aperture(4096, Rights::Write)?);
//! println!("give this to the sender: {}", aperture.descriptor()?);
//! let mut ready = endpoint.tripwire(&Watch::local(&aperture, 0..8)?)?;
//! let length = ready.wait_until(None, || Ok(Some(aperture.load_u64(0)?).filter(|length| *length != 0)))?;
//! let mut text = vec![0; length.min(4088) as usize];
//! aperture.read(8, &mut text)?;
//!
//! // Another, on another host:
//! let descriptor: Descriptor = std::env::args().nth(1).unwrap_or_default().parse()?;
//! let window = endpoint.map(&descriptor, 0, 4096)?;
//! window.write(8, b"hello")?;
//! window.store_u64(0, 5)?;
//! # Ok::<(), hamlyn::Error>(())
//! ```

mod aperture;
#[cfg(feature = "tokio")]
pub mod asynchronous;
mod attachment;
mod cache;
mod card;
pub(crate) mod channel;
mod connection;
mod descriptor;
mod dma;
mod endpoint;
mod events;
mod place;
pub mod programs;
mod tripwire;
mod window;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use self::aperture::{Aperture, Rights};
pub use self::attachment::{Attachment, Object};
pub use self::cache::{EndpointCache, Kit};
pub use self::card::{Card, CardInfo, Clan};
pub use self::connection::{Connection, PeerEnd, Request, TOLD_SIZE};
pub use self::descriptor::{Descriptor, DescriptorError};
pub use self::dma::{Dma, DmaError, Requested, Transfer};
pub use self::endpoint::{
    Address, Endpoint, EndpointBuilder, Fault, FaultReason, MESSAGE_SIZE, Message, MessageKind,
};
pub use self::events::{Event, EventQueue, Interest, What};
pub use self::tripwire::{Tripset, Tripwire, TripwireError, Watch};
pub use self::window::Window;
pub use hamlyn_abi::clan::statistics::ClanStatistic as Statistic;
