//! What is the SHRIMP card's own.

pub mod commands;
pub mod halves;
pub mod marks;
