//! The paper's programs (section 4), for processes to build on.
//!
//! | the paper's | section | here | when to use it |
//! |---|---|---|---|
//! | simple message transfer, `tx_ready` and `rx_ready` | 4.1 | [`transfer`] | one message at a time, in place or copied, by stores or by DMA |
//! | remote procedure call on it | 4.1 | [`rpc`] | a request and its reply, with two flags and two Tripwires |
//! | distributed queue, `lazy_read_i` and `lazy_write_i` | 4.2 | [`queue`] | messages that do not wait for each other, of several parts, with metadata |
//! | the queue, for unstructured data | 4.3 | [`stream`] | bytes, as `Read` and `Write` |
//! | a Tripwire early in a message | 4.3 | [`transfer::Receiver::set_early`] | a long message that is slept for |
//! | Tripwires for header and body | 4.3 | [`headed`] | a header that says what to do with the body that follows |
//! | polling for a while before blocking | 4.3 | [`super::Endpoint::set_polling`] | always; how long is the program's affair |
//!
//! All of them stand on an [`End`]: memory of this process that the other stores to, and a window
//! to the other's. All accesses across the network are writes: each side keeps what it has to look
//! at in its own memory, and Tripwires there wake who sleeps. They work without Tripwires as well,
//! which is what they do for as long as they poll.
//!
//! Whoever is at the other end is not trusted: what he stores as a length or an index is loaded
//! once, and checked. What he can spoil is what he is told, and his own memory.
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
//! let end = Arc::new(End::connect(&endpoint, own, other, None)?);
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

/// Where the control words are.
const RX_READY: usize = 0;
const TX_READY: usize = 8;
const HEADER_READY: usize = 16;
const LAZY_WRITE_I: usize = 24;
const LAZY_READ_I: usize = 32;
/// Where messages begin.
const DATA: usize = 64;
