//! Express memory: one file for each kind of object.

mod area;
mod channel;
mod receiver;
mod sender;

pub use area::*;
pub use channel::*;
pub use receiver::*;
pub use sender::*;
