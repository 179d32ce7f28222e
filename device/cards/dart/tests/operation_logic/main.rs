//! Tests of the Operation Logic against a second one. That one was written plainly from
//! `docs/dart.md` alone, without considering a card.

mod agreement;
mod both;
mod compound;
mod endpoint;
mod opcodes;

use hamlyn_test_host::dart::{drawing, interpreter};
