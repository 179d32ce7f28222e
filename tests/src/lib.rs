//! Tests of the whole: what is made from the sources and checked in (headers, manual pages) and the
//! deliberate breaks here, the rest in `tests/`.

pub mod c_api;
pub mod headers;
pub mod manuals;
pub mod mutants;
