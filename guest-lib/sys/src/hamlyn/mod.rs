//! What is the Hamlyn card's own.

pub mod window;
