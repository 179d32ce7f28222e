//! Code of the whole repository's tests: the generators of checked-in files (headers, manual pages)
//! and the deliberate breaks. The tests themselves are in `tests/`.

pub mod c_api;
pub mod headers;
pub mod manuals;
pub mod mutants;
