//! The bus: a vfio-user server that adds a PCI function to a virtual machine, and the services that
//! the bus offers to a card.
//!
//! Unmodified QEMU (`vfio-user-pci`) connects to the [`Server`]'s socket. A host process without a
//! virtual machine can connect too. The card implements [`Function`], which is called when the
//! guest reads, writes or resets. The card accesses guest memory, interrupts and the memory of its
//! mapped BARs through [`Bus`].
//!
//! | file | contents |
//! |---|---|
//! | `description`, `function` | the card's description, and the calls that the bus makes |
//! | `server`, `gate` | the server and its event loop, accepting clients |
//! | `session`, `budget`, `late`, `refusal` | one client: messages, turns, deferred reads, errors |
//! | `codec`, `socket` | conversion of messages to bytes, bytes on the stream |
//! | `endpoint`, `config_space` | the function's regions and its configuration space |
//! | `bar`, `backing` | mapped pages: the server's own, or in a file from outside |
//! | `dma`, `memory`, `shared_file`, `irq` | guest memory, interrupts |
//!
//! One server serves one function. A card with several functions has several servers in one event
//! loop. If no BAR of a function has mapped areas, QEMU posts the writes to it, which is ten times
//! faster than a round trip.

mod backing;
mod bar;
mod budget;
mod bus;
pub mod codec;
mod config_space;
mod counters;
mod description;
mod dma;
mod endpoint;
mod function;
mod gate;
mod irq;
mod late;
mod looks;
mod memory;
mod refusal;
mod server;
mod session;
mod shared_file;
mod socket;

pub use backing::{Backing, BackingError};
pub use bar::{BoundsError, SharedPages};
pub use bus::Bus;
pub use counters::Counters;
pub use description::{
    Area, BAR_COUNT, Bar, Description, DescriptionError, MAX_VECTORS, Msix, PAGE_SIZE, Widths,
};
pub use dma::{Access, Dma, DmaError, DmaErrorReason, MAX_MAPS};
pub use function::{Answer, BarRead, Function, ReadToken, ResetCause};
pub use hamlyn_door::ListenError;
pub use irq::{Interrupts, VectorError};
pub use late::LateReadError;
pub use memory::GuestMemory;
pub use server::{Server, ServerError, Waiter};
pub use vm_memory::VolatileSlice;
