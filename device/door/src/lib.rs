//! Sockets between local processes: the listener, a peer's credentials, and threads for the objects
//! that a peer passes.
//!
//! | file | holds |
//! |---|---|
//! | `activation` | sockets that a service manager passes |
//! | `listener` | the socket that peers connect to, and its file |
//! | `credentials` | the process at the other end |
//! | `limited` | a rate limit for log lines that peers can cause |
//! | `meter` | the cost of waking a peer, and its limit |
//! | `parting` | a last message to a peer that is disconnected |
//! | `porter` | a thread that closes and writes what a peer passed, because that can block |
//!
//! A peer is untrusted until checked, and keeps control of the objects that it passes. It can make
//! a close wait for a socket's unsent data, or a read for a filesystem that never answers. It can
//! make a write wait for space in an eventfd. So the thread that serves other peers does none of
//! these.

mod activation;
mod credentials;
mod limited;
mod listener;
mod meter;
mod parting;
mod porter;

pub use activation::warn_of_unused_sockets;
pub use credentials::{Credentials, credentials};
pub use limited::{Limited, Unsaid};
pub use listener::{Kind, ListenError, Listener};
pub use meter::Meter;
pub use parting::{hang_up, part};
pub use porter::{HireError, Kept, Line, Porter, Porters};
