//! The DART card (Osborne, *A Hybrid Deposit Model for Low Overhead Communication in High Speed LANs*, 1994): `docs/dart.md`.
//!
//! | what | section | file |
//! |---|---|---|
//! | opcodes | Figure 2 | `opcode` |
//! | the Operation Logic | 3, Figure 5 | `logic` |

mod logic;
mod opcode;

pub use self::logic::{Executed, Trap, Written, execute};
pub use self::opcode::{Addressing, Comparison, Main, Opcode, Operation, Order, Source, Target};
