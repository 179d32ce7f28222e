//! Parts specific to the SHRIMP card.

pub mod commands;
pub mod halves;
pub mod marks;
