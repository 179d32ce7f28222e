//! What is the SHRIMP card's own.

pub mod halves;
pub mod marks;
