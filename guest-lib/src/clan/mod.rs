//! The CLAN card: access to memory of other hosts, and Tripwires that fire on such accesses
//! (Riddoch and others, *Tripwire: a synchronisation primitive for virtual memory mapped
//! communication*).
//!
//! | paper | section | here |
//! |---|---|---|
//! | aperture, and the opaque descriptor (RDMA cookie) | 3.2 | [`Aperture`], [`Descriptor`] |
//! | mapping of a remote aperture; programmed I/O | 2.1 | [`Endpoint::map`], [`Window`] |
//! | multicast | 2.5 | [`Card::join_group`], [`Descriptor::of_group`] |
//! | Tripwire: local or remote, reads or writes | 2.5, 3.3 | [`Watch`], [`Endpoint::tripwire`] |
//! | Tripwire: address range, one-shot | 2.5, 3.3 | [`Watch`] |
//! | test at user level | 3.3 | [`Tripwire::test`] |
//! | wait; wait at user level | 3.3 | [`Tripwire::wait`], [`Tripwire::wait_until`] |
//! | Tripset | 3.3 | [`Tripset`] |
//! | endpoint | 3.1 | [`Endpoint`] |
//! | 40-byte out-of-band messages | 3.1 | [`Endpoint::send_message`], [`Endpoint::recv_message`] |
//! | connection set-up | 3.1 | [`Endpoint::connect`], [`Endpoint::accept`] |
//! | connection tear-down, exceptional conditions | 3.1 | [`Connection`] |
//! | endpoint cache and reuse | 3.1 | [`EndpointCache`] |
//! | DMA requests in a shared queue | 3.4 | [`Dma`], [`Transfer`] |
//! | DMA requests by the driver, for comparison | 3.4 | [`EndpointBuilder::drivers_dma`] |
//! | asynchronous event queue; readable when not empty | 3.5 | [`EventQueue`] |
//! | message transfer, RPC, distributed queue, and programs built on them | 4 | [`programs`] |
//!
//! ```no_run
//! use hamlyn::clan::{Card, Descriptor, Rights, Watch};
//!
//! let card = Card::open_default()?;
//! let (endpoint, aperture) = (card.endpoint()?, card.aperture(4096, Rights::Write)?);
//! println!("give this to the sender: {}", aperture.descriptor()?);
//! let mut ready = endpoint.tripwire(&Watch::local(&aperture, 0..8)?)?;
//! let length =
//!     ready.wait_until(|| Ok(Some(aperture.load_u64(0)?).filter(|length| *length != 0)))?;
//! let mut text = vec![0; length.min(4088) as usize];
//! aperture.read(8, &mut text)?;
//!
//! // Another process, on another host:
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
pub(crate) mod descriptor_error;
mod dma;
pub(crate) mod dma_error;
mod dma_queue;
pub(crate) mod endpoint;
mod events;
mod model;
mod place;
pub mod programs;
mod rights;
mod transfer;
mod tripwire;
pub(crate) mod tripwire_error;
mod window;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use self::aperture::Aperture;
pub use self::attachment::{Attachment, Object};
pub use self::cache::{EndpointCache, Kit};
pub use self::card::{Card, CardInfo};
pub use self::connection::{Connection, PeerEnd, Request, TOLD_SIZE};
pub use self::descriptor::Descriptor;
pub use self::descriptor_error::DescriptorError;
pub use self::dma::Dma;
pub use self::dma_error::DmaError;
pub use self::dma_queue::Requested;
pub use self::endpoint::{
    Address, Endpoint, EndpointBuilder, Fault, FaultReason, MESSAGE_SIZE, Message, MessageKind,
};
pub use self::events::{Event, EventQueue, Interest, What};
pub use self::model::Clan;
pub use self::rights::Rights;
pub use self::transfer::Transfer;
pub use self::tripwire::{Tripset, Tripwire, Watch};
pub use self::tripwire_error::TripwireError;
pub use self::window::Window;
pub use hamlyn_abi::clan::statistics::ClanStatistic as Statistic;
