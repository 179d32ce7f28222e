//! A machine's stores to ordinary memory, seen as a card on its memory bus would see them.
//!
//! A stock QEMU tells a plugin of each store that it emulates. The plugin (`device/snoop/plugin`)
//! runs on the processor's own thread, inside QEMU; the card has a process of its own. Between them
//! lies one piece of memory, made by the card:
//!
//! | bytes | what | written by |
//! |---|---|---|
//! | the first page | how far the ring is, who sleeps, what is watched, whether stores are told | either, each word by one |
//! | a bit for each page of guest memory | whether stores to it are told | the card |
//! | records of 32 bytes | the stores, in the order in which they were made | the plugin |
//!
//! | module | holds |
//! |---|---|
//! | [`card`] | the card's end: what is watched, and the stores that come |
//! | [`machine`] | the end of the machine: asks what is watched, and tells |
//! | [`store`] | a store, and its record |
//! | `live` | whether stores are told already: the protocol that loom explores |
//! | `layout` | where all that lies in the memory |
//! | `welcome` | how a plugin gets it |
//!
//! The ring is that of the fabric ([`hamlyn_fabric::index`]): who sleeps, for stores or for room,
//! says so, issues a full barrier, and looks once more. A full ring is the flow control of the
//! paper's section 4: the processor waits where it is, and nothing is lost.
//!
//! The plugin's process is the guest's QEMU, and is not trusted. Whatever it writes, the worst that
//! comes of it is an [`Ended`], which ends its session; another plugin may come, and gets other
//! memory.

pub mod card;
mod layout;
mod live;
pub mod machine;
pub mod store;
mod welcome;

pub use card::{Ended, PageError, Snoop};
pub use layout::{PAGE, Size, SizeError};
pub use machine::Machine;
pub use store::Store;
pub use welcome::ConnectError;
