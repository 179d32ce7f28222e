//! Parts specific to the Hamlyn card.

pub mod window;
