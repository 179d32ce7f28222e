//! What the benchmark's programs and its own processes have in common: data that shows which
//! message brought it.

pub mod pattern;
