//! Tests of the whole: the contract with C and the deliberate breaks here, the rest in `tests/`.

pub mod headers;
pub mod mutants;
