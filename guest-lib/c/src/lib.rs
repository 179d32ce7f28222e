//! The user library for C. What C programmers read is `include/hamlyn.h`, for SHRIMP cards
//! `include/shrimp.h`, for CLAN cards `include/clan.h` and `include/clan_programs.h`, for DART
//! cards `include/dart.h` and `include/dart_programs.h`, for express memory `include/express.h`,
//! which are made from these files by `cargo run -p hamlyn-tests --bin headers`: the comments here
//! are written for them.
//!
//! A handle is a Rust value in a box of its own, so what C passes in is `Option<&T>`, `Option<&mut
//! T>` or `Option<Box<T>>`, which are pointers that may be null, and what it gets is written to an
//! `Option<&mut MaybeUninit<T>>`. What is left for unsafe code is in `memory.rs`: bytes and texts
//! that C points to. No panic crosses into C.

//! To Rust the functions are unsafe: what they are handed must be what the headers say, handles
//! alive and bytes as many as said.

// The names are C's. What makes the calls safe is said once, above, and not in the comments, which
// are the header's.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod area;
mod call;
mod card;
mod clan;
mod connection;
mod dart;
mod datagram;
mod end_point;
mod express;
mod handle;
mod manager;
mod memory;
mod names;
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
pub use clan::*;
pub use connection::*;
pub use dart::*;
pub use datagram::*;
pub use end_point::*;
pub use express::*;
pub use handle::*;
pub use manager::*;
pub use names::*;
pub use shrimp::*;
pub use slot::*;
pub use stream::*;
pub use stream_pair::*;
pub use tagged::*;
pub use terminus::*;
pub use ticket::*;
