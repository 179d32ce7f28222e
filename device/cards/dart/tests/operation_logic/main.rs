//! Tests of the Operation Logic against a second one. That one was written plainly from
//! `docs/dart.md` alone, without considering a card.

mod agreement;
mod both;
mod compound;
mod drawing;
mod endpoint;
mod interpreter;
mod opcodes;
