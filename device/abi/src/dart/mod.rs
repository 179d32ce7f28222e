//! The DART card's side of the contract: hybrid deposit (Osborne, *A Hybrid Deposit Model for Low Overhead Communication in High Speed LANs*).
//!
//! A message does what its sender says to what the receiver keeps for it: bytes of an *endpoint*, a region of a process' virtual memory, and
//! *address registers* of the card. `docs/dart.md` says what exactly.

pub mod control;
pub mod trap;
