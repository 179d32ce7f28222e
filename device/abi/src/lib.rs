//! What a guest and a card agree on: the one source of truth.
//!
//! Most contracts of the project live here. They never import each other, but for [`family`]:
//!
//! * card and guest: [`family`] (what all cards share) and [`hamlyn`] (registers, windows,
//!   commands, queue entries);
//! * driver and library: [`uapi`] (ioctls and mmap offsets), and `uapi.rs` in the folder of a card.
//!   A card never looks at it;
//! * driver and driver: [`kernel`] (requests for connections). Nor at this.
//!
//! One more, card and switch, is the packet header in `hamlyn-fabric`; a guest never sees it.
//!
//! The C headers in `guest-driver/` are generated from these files (`cargo run -p hamlyn-tests
//! --bin headers`), so every constant is a literal and every structure `repr(C)`: the generator
//! refuses anything else. All multi-byte values are little-endian.
#![no_std]

pub mod clan;
pub mod dart;
pub mod echo;
pub mod family;
pub mod hamlyn;
pub mod kernel;
pub mod shrimp;
pub mod uapi;
