//! The unsafe layer of the Hamlyn library: system calls and shared memory behind a safe interface.
//!
//! All layers above (`hamlyn`) forbid unsafe code. The modules are:
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
