//! Tests of the whole: the deliberate breaks are here, the rest is in `tests/`.

pub mod mutants;
