//! The unsafe floor of the Hamlyn library: system calls and shared memory behind a safe face.
//!
//! Everything above (`hamlyn`) forbids unsafe code. What is here:
//!
//! * [`mapping`]: memory shared with the card, touched by atomic loads and stores alone;
//! * [`hamlyn`]: the three mapped structures of a Hamlyn card's data path, typed: a terminus'
//!   window, its status words, a queue;
//! * [`shrimp`]: what the message-passing primitives of a SHRIMP card need: buffers that are used
//!   in turn, marks to count instructions;
//! * [`barrier`]: memory barriers, named for what they keep apart;
//! * [`device`]: `/dev/hamlynN`, its ioctls typed by `hamlyn_abi::uapi`;
//! * [`connection`]: the files of listeners and connections;
//! * [`urgency`]: who runs first.

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
