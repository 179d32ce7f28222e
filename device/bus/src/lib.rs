//! The bus: a vfio-user server that puts a PCI function into a virtual machine, and the services a
//! card has there.
//!
//! Stock QEMU (`vfio-user-pci`) connects to the [`Server`]'s socket; so can a host process without
//! any virtual machine. The card implements [`Function`] and is called when the guest reads, writes
//! or resets; it reaches guest memory, interrupts and the memory of its mapped BARs through
//! [`Bus`].
//!
//! | file | holds |
//! |---|---|
//! | `function` | what a card tells the bus, and the calls the bus makes |
//! | `server`, `gate`, `session`, `budget`, `late`, `refusal` | who comes in, one client, its messages, their time, reads answered later, why one is refused |
//! | `codec`, `socket` | messages and bytes; bytes and the stream |
//! | `endpoint`, `config_space` | regions of the function, its configuration space |
//! | `bar`, `backing`, `dma`, `memory`, `shared_file`, `irq` | mapped pages, of our own and of a file that is handed in, guest memory, interrupts |
//!
//! One server serves one function; a card with several functions has several servers in one event
//! loop. If no BAR of a function has mapped areas, QEMU posts the writes to it, which is ten times
//! quicker than a round trip.

mod backing;
mod bar;
mod budget;
mod bus;
pub mod codec;
mod config_space;
mod counters;
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
pub use dma::{Access, Dma, DmaError, DmaErrorReason, MAX_MAPS};
pub use function::{
    Answer, Area, BAR_COUNT, Bar, BarRead, Description, DescriptionError, Function, MAX_VECTORS, Msix,
    PAGE_SIZE, ReadToken, ResetCause, Widths,
};
pub use hamlyn_door::ListenError;
pub use irq::{Interrupts, VectorError};
pub use late::LateReadError;
pub use memory::GuestMemory;
pub use server::{Server, ServerError, Waiter};
pub use vm_memory::VolatileSlice;
