//! Channels over the cards of all models, in `hamlyn/channel.h`. Their prefix is that of the
//! family, `uln_`: user-level network.

mod card;
mod open;
mod receiver;
mod sender;

pub use card::*;
pub use open::*;
pub use receiver::*;
pub use sender::*;
