//! The Hamlyn interface library (section 3 of the paper). Both layers are thread-safe: for the
//! upper one see [`Manager`].
//!
//! **Upper layer.** A [`Manager`] has a send terminus and hands what arrives to its receivers. On
//! it are the protocols: [`protocol::stream`] for bytes in order, [`protocol::datagram`] for single
//! messages and their replies; beside it [`protocol::tagged_write`], the fastest. [`Card::listen`]
//! and [`Card::connect`] bring processes together by a name.
//!
//! **Lower layer.** A process opens a [`Card`], sends from a [`Terminus`] and receives in a
//! [`Slot`]. Who may write into a slot is who holds a [`Ticket`] for it. Nothing below enters the
//! kernel on the way of a message.
//!
//! | paper | section | here |
//! |---|---|---|
//! | message area, slot | 2.2 | [`MessageArea`], [`Slot`]; over memory of the application's own: [`Card::lend`] |
//! | private send terminus, send buffer | 2.3 | [`Terminus`], [`SendBuffer`] |
//! | metadata entry (Table 2) | 2.4 | [`MetadataEntry`] |
//! | packet counting | 2.5 | [`Message::delta`] |
//! | group receive, delegation, scatter-gather | 2.5 | [`Share`] |
//! | distributed barrier | 2.5 | [`protocol::barrier`] |
//! | notification queue (Table 3), overrun | 2.6 | [`NotificationQueue`], [`Error::Overrun`] |
//! | several slots on one queue; interrupts asked for by slot, ticket or message | 2.6 | [`SlotBuilder::queue`]; [`SlotBuilder::interrupt`], [`TicketFlags::INTERRUPT`], [`Message::interrupt`] |
//! | fast mode | 2.7 | [`Slot::fast_ticket`] |
//! | paranoid and one-shot modes, revocation | 2.7 | [`Mode`], [`MetadataEntry`], [`Card::settle`] |
//! | periodic handshake | 2.8 | the driver's; [`attach::SocketAttachment`] keeps it where there is none |
//! | back-pressure: `send` would block | 2.8 | [`Terminus::try_send`] |
//! | priorities by weights | 2.3 leaves them open | [`Card::create_terminus_weighted`] |
//! | remote fetch-and-op | 5.1, as an extension | [`Terminus::fetch`] |
//! | connections, and a dead peer told of | 6.3, 6.4 | [`Card::listen`], [`Card::connect`], [`Connection`] |
//! | what the operating system mediates | 3.1 | [`attach::Attachment`] |
//! | `h_send_msg` | 3.2 | [`Terminus::send`], and [`Terminus::try_send`], which does not block |
//! | buffer-release handle | 3.2 | [`Handle`] |
//! | `h_recv` | 3.2 | [`NotificationQueue::recv`] |
//! | `h_recv_block` | 3.2 | [`NotificationQueue::recv_block`], and [`NotificationQueue::recv_poll`], which never sleeps |
//! | ticket | 3.2 | [`Ticket`] |
//! | manager, `poll_nowait` | 3.3 | [`Manager`], [`Manager::poll`], [`Manager::receive`] |
//! | receiver class, `process_arrival`, receive class pointer | 3.3, Table 2 | [`ReceiverClass`], [`EndPoint`], [`MetadataEntry::receive_class`] |
//! | buffer memory, reclaimed when it is sent | 3.3, 6.2 | [`Manager::allocate`], [`Buffer`], [`Sent`] |
//! | `make_seed`, seed | 3.3 | [`protocol::stream::StreamReceiver::make_seed`], [`Seed`] |
//! | simple datagram | 3.3 | [`protocol::datagram`] |
//! | stream: send, flush, receive, release | 3.3 | [`protocol::stream`] |
//! | tagged remote write: send, `get_tag`, `get_specific_tag` | 3.3 | [`protocol::tagged_write`] |
//! | opening and monitoring connections | 6.3 | [`Card::listen`], [`Connection`], [`protocol::stream::StreamPair`] |
//! | graceful close by a sender | 6.4 | [`protocol::stream::StreamSender::close`], [`Connection::close`] |
//!
//! ```no_run
//! use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
//!
//! let card = hamlyn::Card::open_default()?;
//! let mut receiver = TagReceiver::create(&card, 4096, 64)?;
//! println!("give this to the sender: {}", receiver.ticket()?);
//!
//! let peer: hamlyn::Ticket = std::env::args().nth(1).unwrap_or_default().parse()?;
//! let sender = TagSender::new(card.create_terminus()?);
//! sender.send(&peer, b"hello", 0, 7)?;
//! let tag = receiver.get_tag_block(None)?;
//! # Ok::<(), hamlyn::Error>(())
//! ```

pub mod attach;
pub mod channel;
pub mod clan;
mod core;
pub mod dart;
pub mod echo;
mod error;
mod hamlyn;
pub mod shrimp;

#[doc(hidden)]
pub use self::core::copies;
#[doc(hidden)]
pub use self::core::express::bare;
#[cfg(feature = "tokio")]
pub use self::hamlyn::asynchronous;
pub use self::hamlyn::{express, protocol};

pub use self::core::card::SelfTest;
pub use self::core::connection::{
    Answer, CONNECT_TIMEOUT, Connecting, Connection, End, EndReason, FIND_TIMEOUT, Found, Listener, MAX_NAME,
    MAX_PRIVATE, Question, Request,
};
pub use self::core::key::random_key;
pub use self::core::lend::{Lendable, Pages};
pub use self::core::loss::PeerLoss;
pub use self::core::memory::Memory;
pub use self::core::polling::Polling;
pub use self::hamlyn::card::{Card, CardInfo};
pub use self::hamlyn::fetch::{Fetch, FetchOp};
pub use self::hamlyn::group::{Share, ShareError, Undivided};
pub use self::hamlyn::manager::{
    Arrived, Buffer, EndPoint, Manager, Ready, ReceiveClass, ReceiverClass, Sent, Waker,
};
pub use self::hamlyn::message_area::MessageArea;
pub use self::hamlyn::metadata::MetadataEntry;
pub use self::hamlyn::notification::{Arrival, Notification, NotificationQueue};
pub use self::hamlyn::request::{Message, RequestBlock};
pub use self::hamlyn::seed::{Seed, SeedError};
pub use self::hamlyn::send_buffer::{Piece, SendBuffer};
pub use self::hamlyn::slot::{Mode, Slot, SlotBuilder};
pub use self::hamlyn::terminus::{Handle, Source, Terminus};
pub use self::hamlyn::ticket::{Ticket, TicketError, TicketFlags};
pub use error::{Error, ErrorKind, GivenBack, Result};
pub use hamlyn_abi::hamlyn::statistics::Statistic;
