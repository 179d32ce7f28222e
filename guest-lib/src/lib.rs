//! The Hamlyn interface library (section 3 of the paper). Both layers are thread-safe; for the
//! upper layer see [`Manager`].
//!
//! **Upper layer.** A [`Manager`] owns a send terminus and dispatches arrivals to its receivers.
//! The protocols are built on it: [`protocol::stream`] for an ordered byte stream,
//! [`protocol::datagram`] for single messages and their replies. [`protocol::tagged_write`]
//! bypasses it and is the fastest. [`Card::listen`] and [`Card::connect`] connect processes by
//! name.
//!
//! **Lower layer.** A process opens a [`Card`], sends from a [`Terminus`] and receives in a
//! [`Slot`]. A sender needs a [`Ticket`] to write into a slot. The lower layer's message path never
//! enters the kernel.
//!
//! | paper | section | here |
//! |---|---|---|
//! | message area, slot | 2.2 | [`MessageArea`], [`Slot`] |
//! | message area over application memory | 2.2 | [`Card::lend`] |
//! | private send terminus, send buffer | 2.3 | [`Terminus`], [`SendBuffer`] |
//! | metadata entry (Table 2) | 2.4 | [`MetadataEntry`] |
//! | packet counting | 2.5 | [`Message::delta`] |
//! | group receive, delegation, scatter-gather | 2.5 | [`Share`] |
//! | distributed barrier | 2.5 | [`protocol::barrier`] |
//! | notification queue (Table 3), overrun | 2.6 | [`NotificationQueue`], [`crate::OverrunError`] |
//! | several slots on one queue | 2.6 | [`SlotBuilder::queue`] |
//! | interrupt requested by slot | 2.6 | [`SlotBuilder::interrupt`] |
//! | interrupt requested by ticket | 2.6 | [`TicketFlags::INTERRUPT`] |
//! | interrupt requested by message | 2.6 | [`Message::interrupt`] |
//! | fast mode | 2.7 | [`Slot::fast_ticket`] |
//! | paranoid and one-shot modes | 2.7 | [`Mode`], [`MetadataEntry`] |
//! | revocation | 2.7 | [`MetadataEntry`], [`Card::settle`] |
//! | periodic handshake, with a driver | 2.8 | the driver |
//! | periodic handshake, without a driver | 2.8 | [`attach::SocketAttachment`] |
//! | back-pressure: `send` would block | 2.8 | [`Terminus::try_send`] |
//! | weighted priorities | 2.3 leaves them open | [`Card::create_terminus_weighted`] |
//! | remote fetch-and-op | 5.1, as an extension | [`Terminus::fetch`] |
//! | connections | 6.3, 6.4 | [`Card::listen`], [`Card::connect`], [`Connection`] |
//! | notification of a dead peer | 6.3, 6.4 | [`Connection`] |
//! | what the operating system mediates | 3.1 | [`attach::Attachment`] |
//! | `h_send_msg` | 3.2 | [`Terminus::send`] |
//! | `h_send_msg`, non-blocking | 3.2 | [`Terminus::try_send`] |
//! | buffer-release handle | 3.2 | [`Handle`] |
//! | `h_recv` | 3.2 | [`NotificationQueue::try_recv`] |
//! | `h_recv_block` | 3.2 | [`NotificationQueue::recv`] |
//! | `h_recv_block` that never sleeps | 3.2 | [`NotificationQueue::recv_polling`] |
//! | ticket | 3.2 | [`Ticket`] |
//! | manager, `poll_nowait` | 3.3 | [`Manager`], [`Manager::poll`], [`Manager::wait_until`] |
//! | receiver class, `process_arrival` | 3.3 | [`ReceiverClass`], [`EndPoint`] |
//! | receive class pointer | Table 2 | [`MetadataEntry::receive_class`] |
//! | buffer memory | 3.3, 6.2 | [`Manager::allocate`], [`Buffer`] |
//! | buffer memory reclaimed once sent | 3.3, 6.2 | [`Sent`] |
//! | `make_seed`, seed | 3.3 | [`protocol::stream::StreamReceiver::make_seed`], [`Seed`] |
//! | simple datagram | 3.3 | [`protocol::datagram`] |
//! | stream: send, flush, receive, release | 3.3 | [`protocol::stream`] |
//! | tagged remote write: send, `get_tag`, `get_specific_tag` | 3.3 | [`protocol::tagged_write`]: `recv`, `recv_tag` |
//! | opening connections | 6.3 | [`Card::listen`], [`protocol::stream::StreamPair`] |
//! | monitoring connections | 6.3 | [`Connection`] |
//! | graceful close of a stream | 6.4 | [`protocol::stream::StreamSender::close`] |
//! | graceful close of a connection | 6.4 | [`Connection::close`] |
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
//! let tag = receiver.recv()?;
//! # Ok::<(), hamlyn::Error>(())
//! ```

pub mod attach;
pub mod channel;
pub mod clan;
mod core;
pub mod dart;
pub mod echo;
mod error;
pub mod express;
mod hamlyn;
pub mod shrimp;

#[cfg(all(debug_assertions, feature = "test-hooks"))]
pub use self::core::copies::copied;
#[cfg(feature = "test-hooks")]
pub use self::core::express::bare;
#[cfg(feature = "tokio")]
pub use self::hamlyn::asynchronous;
pub use self::hamlyn::protocol;

pub use self::core::card::SelfTest;
pub use self::core::connection::{
    Answer, CONNECT_TIMEOUT, Connecting, Connection, End, EndReason, FIND_TIMEOUT, Found, Listener, MAX_NAME,
    MAX_PRIVATE, Question, Request,
};
pub use self::core::key::random_key;
pub use self::core::lend::{Lendable, Pages};
pub use self::core::loss::PeerLoss;
pub use self::core::memory::Memory;
pub use self::core::polling::{Poller, Polling};
pub use self::hamlyn::card::{Card, CardInfo};
pub use self::hamlyn::errors::{ForeignBufferError, InFlightError, OverrunError, RefusedError};
pub use self::hamlyn::fetch::{Fetch, FetchOp};
pub use self::hamlyn::group::{Share, Undivided};
pub use self::hamlyn::manager::{
    Arrived, Buffer, EndPoint, Manager, Ready, ReceiveClass, ReceiverClass, Sent, Waker,
};
pub use self::hamlyn::message_area::MessageArea;
pub use self::hamlyn::metadata::MetadataEntry;
pub use self::hamlyn::notification::{Arrival, Notification, NotificationQueue};
pub use self::hamlyn::request::Message;
#[cfg(feature = "test-hooks")]
pub use self::hamlyn::request::RequestBlock;
pub use self::hamlyn::seed::Seed;
pub use self::hamlyn::send_buffer::{Piece, SendBuffer};
pub use self::hamlyn::slot::{Mode, Slot, SlotBuilder};
pub use self::hamlyn::terminus::{Handle, Source, Terminus};
pub use self::hamlyn::ticket::{Ticket, TicketFlags};
pub use self::hamlyn::ticket_errors::{SeedError, ShareError, TicketError};
pub use error::{Error, ErrorKind, GivenBack, ModelError, Result};
pub use hamlyn_abi::hamlyn::statistics::Statistic;
