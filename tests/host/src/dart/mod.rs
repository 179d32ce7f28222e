//! What `docs/dart.md` specifies that messages do, written plainly from that page alone. The card's
//! tests and the simulation compare a DART card with it.

pub mod calling;
pub mod drawing;
pub mod interpreter;
