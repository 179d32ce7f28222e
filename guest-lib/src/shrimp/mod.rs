//! The SHRIMP card: what a process stores in its own memory arrives in another process' memory
//! (Blumrich and others, 1994).
//!
//! | paper | section | here |
//! |---|---|---|
//! | receive buffer, `destination`: which hosts may store | 2 | [`ReceiveBuffer`], [`Handle`] |
//! | `map`: protection is checked once, by both operating systems | 2, 3.1 | [`Card::map`] |
//! | a program's own data structures as buffers, without a copy | 2 | [`OwnMemory`] |
//! | such memory as receive and send buffers | 2 | [`Card::export_own`], [`Card::map_own`] |
//! | send buffer, `send` | 2 | [`SendBuffer`], [`SendBuffer::send`] |
//! | where a mapping may begin; pages in two parts | 3.2 | [`Card::map`], [`OwnMemory`] |
//! | automatic update: single-write, blocked-write | 4.1 | [`Mode::Single`], [`Mode::Blocked`] |
//! | stores for automatic update | 4.1 | [`SendBuffer::store_u32`], [`SendBuffer::write`] |
//! | memory shared by complementary mappings, PRAM consistency | 4.1 | [`Shared`] |
//! | commands by memory: another mode for a page | 4.2 | [`SendBuffer::set_mode`] |
//! | an interrupt when data arrives for a page | 4.2 | [`ReceiveBuffer::wait`] |
//! | deliberate update by CMPXCHG, of several pages in turn | 4.3 | [`SendBuffer::send`] |
//! | back-off by the number of words left | 4.3 | [`SendBuffer::send`] |
//! | whether the engine is free | 4.3 | [`SendBuffer::is_free`] |
//! | the transfer that the engine has | 4.3 | [`SendBuffer::underway`] |
//! | whether the engine is done with a transfer | 4.3 | [`SendBuffer::wait_until_sent`] |
//! | message-passing primitives | 5.2 | [`primitives`] |
//! | pages with incoming mappings stay in memory | 4.4 | [`Card::export`] |
//! | pages with incoming mappings leave and come back | 4.4 | [`Card::export_paged`] |
//! | mappings that their owner ends | 4.4 | [`SendBuffer::state`] |
//!
//! ```no_run
//! use hamlyn::shrimp::{Card, Handle, Mode};
//!
//! let card = Card::open_default()?;
//! let buffer = card.export(4096, card.hosts()?)?;
//! println!("give this to the sender: {}", buffer.handle()?);
//! let length = buffer.wait(0, 0)?;
//! let mut text = vec![0; length.min(4092) as usize];
//! buffer.read(4, &mut text)?;
//!
//! // Another process, on another host:
//! let handle: Handle = std::env::args().nth(1).unwrap_or_default().parse()?;
//! let buffer = card.map(&handle, 0, 4096, Mode::Single)?;
//! buffer.write(4, b"hello")?;
//! buffer.store_u32(0, 5)?;
//! # Ok::<(), hamlyn::Error>(())
//! ```

mod announced;
mod card;
pub(crate) mod channel;
mod deliberate;
#[cfg(test)]
mod fake;
mod handle;
pub(crate) mod handle_error;
pub(crate) mod mapping_error;
mod mappings;
mod model;
mod outlet;
mod own_memory;
mod pieces;
mod place;
pub mod primitives;
mod receive_buffer;
mod refusals;
mod send_buffer;
mod shared;
mod transfer;

pub use self::card::{Card, CardInfo};
pub use self::deliberate::Underway;
pub use self::handle::Handle;
pub use self::handle_error::HandleError;
pub use self::mapping_error::MappingError;
pub use self::model::Shrimp;
pub use self::outlet::Pointers;
pub use self::own_memory::OwnMemory;
pub use self::pieces::MAX_BUFFER;
pub use self::receive_buffer::ReceiveBuffer;
pub use self::send_buffer::{MappingState, Mode, SendBuffer};
pub use self::shared::Shared;
pub use hamlyn_abi::shrimp::statistics::ShrimpStatistic as Statistic;
