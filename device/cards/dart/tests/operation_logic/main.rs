//! The Operation Logic against a second one, which was written from `docs/dart.md` alone, plainly
//! and without a thought of a card.

mod agreement;
mod both;
mod compound;
mod drawing;
mod endpoint;
mod interpreter;
mod opcodes;
