//! A machine's stores to ordinary memory, as a card on its memory bus would see them.
//!
//! An unmodified QEMU notifies a plugin of each store that it emulates. The plugin
//! (`device/snoop/plugin`) runs on the processor's own thread, inside QEMU; the card has a process
//! of its own. They share one piece of memory, made by the card:
//!
//! | bytes | what | written by |
//! |---|---|---|
//! | the first page | ring positions, sleep flags, watch word, live word | each word by one side |
//! | a bit for each page of guest memory | whether stores to it are reported | the card |
//! | records of 32 bytes | the stores, in the order in which they were made | the plugin |
//!
//! | module | holds |
//! |---|---|
//! | [`card`] | the card's end: watched pages, and incoming stores |
//! | [`machine`] | the machine's end: checks what is watched, and reports stores |
//! | [`store`] | a store, and its record |
//! | `live` | whether stores are reported already: the protocol that loom explores |
//! | `layout` | the layout of the memory |
//! | `welcome` | how a plugin gets the memory |
//!
//! The ring is that of the fabric ([`hamlyn_fabric::index`]). A side that sleeps, for stores or for
//! space, sets a flag, issues a full barrier, and looks once more. A full ring is the flow control
//! of the paper's section 4: the processor waits where it is, and nothing is lost.
//!
//! The plugin's process is the guest's QEMU, and is not trusted. Whatever it writes, the worst
//! result is an [`Ended`], which ends its session. Another plugin may connect, and gets other
//! memory.

pub mod card;
mod layout;
mod live;
pub mod machine;
pub mod store;
mod welcome;

pub use card::{Ended, PageError, Snoop};
pub use layout::{Size, SizeError};
pub use machine::Machine;
pub use store::{PAGE, Store};
pub use welcome::ConnectError;
