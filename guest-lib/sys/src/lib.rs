//! The unsafe layer of the Hamlyn library: system calls and shared memory behind a safe interface.
//!
//! # The card in one page
//!
//! How a message of a Hamlyn card goes from one process to another, without a system call. The
//! sender's side is a [`Window`], the receiver's is a [`QueueEntries`].
//!
//! 1. **Window.** The sender has mapped the window of its own terminus. It fills the next entry of
//!    the work queue there ([`Window::fill_entry`]): destination, slot, key, the place in the slot,
//!    and the data, or which pieces of send buffers are the data. The card reads an entry only
//!    below the tail, so the order of these stores does not matter.
//! 2. **Tail.** It stores the number of requests ever posted ([`Window::publish_request`]), with
//!    release: a card that
//!    sees the tail sees the entry.
//! 3. **Barrier, awake.** A full barrier ([`barrier::before_awake_check`]), then a load of `awake`.
//!    The card stores `awake` = 0, issues a barrier, and looks at the tail once more before it
//!    sleeps. So either the card sees the new tail, or the sender sees that the card sleeps.
//! 4. **Doorbell.** Only if `awake` is 0, the sender stores to its doorbell page. That is the one
//!    store that leaves the processor as a message to the card's process.
//! 5. **The card** copies the entry out once, checks it, cuts it into packets and sends them. Then
//!    it counts the request in the sender's [`StatusWords`]: [`StatusWords::completed`] says that
//!    the entry and the send buffers may be used again.
//! 6. **The other card** checks slot, key and bounds of each packet and writes the data to the
//!    receiver's memory. When all packets of the message are counted, it writes a notification
//!    into the receiver's queue, the `wrap` word last.
//! 7. **Notification.** The receiver loads that word with acquire ([`QueueEntries::word`]). If it
//!    belongs to the pass that the reader expects, the entry and the message's data are visible.
//!    [`QueueEntries::entry`] reads the entry and checks the word again, as a card does not wait
//!    for slow readers and may overwrite it.
//! 8. **Sleep.** A receiver that finds nothing asks the driver to store `armed`. After a full
//!    barrier ([`barrier::before_sleep_check`]) it looks once more, and then sleeps. The other card
//!    raises an interrupt for an armed queue. A sender that waits for `completed` does the same.
//!
//! The numbers are in the datasheet, `docs/hamlyn.md`: the window's offsets, the fields of a
//! request, the checks of a packet, the bytes of a notification.
//!
//! # The modules
//!
//! All layers above (`hamlyn`) forbid unsafe code.
//!
//! - [`mapping`]: memory shared with the card, accessed by atomic loads and stores only;
//! - [`hamlyn`]: the three mapped structures of a Hamlyn card's data path, typed: a terminus'
//!   window, its status words, a queue;
//! - [`shrimp`]: what the message-passing primitives of a SHRIMP card need: buffers that are used
//!   in turn, marks to count instructions;
//! - [`barrier`]: memory barriers, named for their purpose;
//! - [`device`]: `/dev/hamlynN`, its ioctls typed by `hamlyn_abi::uapi`;
//! - [`connection`]: the files of listeners and connections;
//! - [`urgency`]: scheduling priority.
//!
//! [`Window`]: hamlyn::window::Window
//! [`Window::fill_entry`]: hamlyn::window::Window::fill_entry
//! [`Window::publish_request`]: hamlyn::window::Window::publish_request
//! [`StatusWords`]: hamlyn::window::StatusWords
//! [`StatusWords::completed`]: hamlyn::window::StatusWords::completed
//! [`QueueEntries`]: hamlyn::window::QueueEntries
//! [`QueueEntries::word`]: hamlyn::window::QueueEntries::word
//! [`QueueEntries::entry`]: hamlyn::window::QueueEntries::entry

pub mod barrier;
pub mod connection;
pub mod device;
pub mod hamlyn;
pub mod mapping;
pub mod shrimp;
pub mod urgency;

pub use connection::{ConnectionFile, ListenerFile};
pub use device::Device;
pub use mapping::{
    Access, HeldWords, KeptCopy, Mapping, Word, copy_in, copy_out, look, register_copy_in, register_copy_out,
};
