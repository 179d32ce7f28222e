//! The user library for C. `scripts/headers` generates its headers from the doc comments in these
//! files, so write those comments for C programmers. The headers are `hamlyn/channel.h` for
//! channels by any card, `hamlyn.h`, `shrimp.h` for SHRIMP cards, `clan.h` and `clan_programs.h`
//! for CLAN cards, `dart.h` and `dart_programs.h` for DART cards, and `express.h` for express
//! memory.
//!
//! `exported!` declares most functions, with the types that their bodies use. Its file has what C
//! passes for each type, and checks it. A handle is a Rust value in its own box. So C passes
//! `Option<&T>`, `Option<&mut T>` or `Option<Box<T>>`, which are nullable pointers. Results are
//! written to an `Option<&mut MaybeUninit<T>>`. The remaining unsafe code is in `memory.rs`: byte
//! ranges and strings that C points to. No panic crosses into C.
//!
//! The functions are unsafe in Rust: the caller must meet the headers' requirements. Handles must
//! be valid, and buffers must have the stated length.

// The names are C names. The safety requirements are stated once, above: the function comments go
// into the headers.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod area;
mod call;
mod card;
mod channel;
mod clan;
mod connection;
mod dart;
mod datagram;
mod end_point;
mod exported;
mod express;
mod handle;
mod manager;
mod memory;
mod names;
mod polling;
mod shrimp;
mod slot;
mod stream;
mod stream_pair;
mod tagged;
mod terminus;
mod ticket;

pub use area::*;
pub use call::*;
pub use card::*;
pub use channel::*;
pub use clan::*;
pub use connection::*;
pub use dart::*;
pub use datagram::*;
pub use end_point::*;
pub use exported::*;
pub use express::*;
pub use handle::*;
pub use manager::*;
pub use names::*;
pub use polling::*;
pub use shrimp::*;
pub use slot::*;
pub use stream::*;
pub use stream_pair::*;
pub use tagged::*;
pub use terminus::*;
pub use ticket::*;
