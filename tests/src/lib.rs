//! Tests of the whole: the contract with C here, the rest in `tests/`.

pub mod headers;
