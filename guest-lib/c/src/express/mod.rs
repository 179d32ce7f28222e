//! Express memory. A file for each thing that a program has of it.

mod area;
mod channel;
mod receiver;
mod sender;

pub use area::*;
pub use channel::*;
pub use receiver::*;
pub use sender::*;
