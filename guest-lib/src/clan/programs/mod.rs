//! The paper's programs (section 4), for processes to build on.
//!
//! | the paper's | section | here |
//! |---|---|---|
//! | simple message transfer, `tx_ready` and `rx_ready` | 4.1 | [`transfer`] |
//! | remote procedure call on it | 4.1 | [`rpc`] |
//! | distributed queue, `lazy_read_i` and `lazy_write_i` | 4.2 | [`queue`] |
//! | the queue, for unstructured data | 4.3 | [`stream`] |
//! | a Tripwire early in a message | 4.3 | [`transfer::Receiver::set_early`] |
//! | Tripwires for header and body | 4.3 | [`headed`] |
//! | polling for a while before blocking | 4.3 | [`super::Endpoint::set_polling`] |
//!
//! | here | when to use it |
//! |---|---|
//! | [`transfer`] | one message at a time, in place or copied, by stores or by DMA |
//! | [`rpc`] | a request and its reply, with two flags and two Tripwires |
//! | [`queue`] | pipelined messages, of several parts, with metadata |
//! | [`stream`] | bytes, as `Read` and `Write` |
//! | [`transfer::Receiver::set_early`] | a long message, if the receiver sleeps |
//! | [`headed`] | a header that says how to handle the body that follows |
//! | [`super::Endpoint::set_polling`] | always; the program chooses how long |
//!
//! All programs use an [`End`]: memory of this process that the peer stores to, and a window to the
//! peer's memory. All accesses across the network are writes. Each side keeps the words that it
//! checks in its own memory, and Tripwires on them wake it from sleep. The programs also work
//! without Tripwires, as they do while they poll.
//!
//! The peer is not trusted: a length or an index that it stores is loaded once, and checked. A peer
//! can only corrupt the data that it sends, and its own memory.
//!
//! Both memories begin with the control words:
//!
//! | byte | word, 8 bytes | stored by the other's |
//! |---|---|---|
//! | 0 | `rx_ready`: 0, or the message's length and 1 | sender |
//! | 8 | `tx_ready`: 0 or 1 | receiver |
//! | 16 | the header is there: 0 or 1 | sender |
//! | 24 | `lazy_write_i` | sender |
//! | 32 | `lazy_read_i` | receiver |
//! | 64 | messages | sender |
//!
//! So an end has one program for each direction.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use hamlyn::clan::programs::{End, transfer};
//! use hamlyn::clan::{Card, Rights};
//!
//! let card = Card::open_default()?;
//! let (endpoint, own) = (card.endpoint()?, card.aperture(4096, Rights::Write)?);
//! let other = std::env::args().nth(1).unwrap_or_default().parse()?;
//! let end = Arc::new(End::connect(&endpoint, own, other)?);
//! let mut sender = transfer::Sender::new(&end)?;
//! sender.send(b"hello")?;
//! # Ok::<(), hamlyn::Error>(())
//! ```

mod end;
pub mod headed;
pub mod queue;
mod ring;
pub mod rpc;
pub mod stream;
pub mod transfer;

pub use self::end::End;

/// Offsets of the control words.
const RX_READY: usize = 0;
const TX_READY: usize = 8;
const HEADER_READY: usize = 16;
const LAZY_WRITE_I: usize = 24;
const LAZY_READ_I: usize = 32;
/// Offset of the messages.
const DATA: usize = 64;
