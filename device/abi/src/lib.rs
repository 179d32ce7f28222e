//! The contract between guest and card: the single source of truth.
//!
//! Most contracts of the project are here. They never import each other, except [`family`]:
//!
//! * card and guest: [`family`] (what all cards share) and [`hamlyn`] (registers, windows,
//!   commands, queue entries);
//! * driver and library: [`uapi`] (ioctls and mmap offsets), and `uapi.rs` in the folder of a card.
//!   Cards do not use it;
//! * driver and driver: [`kernel`] (requests for connections). Cards do not use this either.
//!
//! Another contract, between card and switch, is the packet header in `hamlyn-fabric`; a guest
//! never sees it.
//!
//! The C headers in `guest-driver/` are generated from these files
//! (`cargo run -p hamlyn-headers`). So every constant is a literal and every structure
//! `repr(C)`: the generator rejects anything else.
//!
//! Values that a card or another host accesses are little-endian: in C, they are `__le32` and the
//! like. Values of [`uapi`] and of a card's `uapi.rs` have the processor's byte order. Rust code
//! does not convert any, so it needs a little-endian processor.
#![no_std]

pub mod clan;
mod counters;
pub mod dart;
pub mod echo;
pub mod family;
pub mod hamlyn;
pub mod kernel;
pub mod shrimp;
pub mod uapi;
