//! Code that the benchmark's guest programs and its own processes share: data that identifies the
//! message it came with.

pub mod pattern;
