//! Doors between local processes: where a peer comes in, who it is, and who carries what it hands
//! over.
//!
//! | file | holds |
//! |---|---|
//! | `listener` | the socket that peers connect to, and its file |
//! | `credentials` | the process at the other end |
//! | `limited` | lines of the log that peers can cause |
//! | `meter` | the cost of waking a peer, and when it is too much |
//! | `parting` | last words to a peer that is ended |
//! | `porter` | a thread that closes and writes what a peer handed over, because that can block |
//!
//! A peer is hostile until checked, and what it hands over stays its own: it can make a close wait
//! for a socket's unsent data, a read for a filesystem that never answers, a write for room in an
//! eventfd. So the thread that serves others does none of that.

mod credentials;
mod limited;
mod listener;
mod meter;
mod parting;
mod porter;

pub use credentials::{Credentials, credentials};
pub use limited::{Limited, Unsaid};
pub use listener::{Kind, ListenError, Listener};
pub use meter::Meter;
pub use parting::{hang_up, part};
pub use porter::{HireError, Kept, Line, Porter, Porters};
