//! SHRIMP cards for C: `include/shrimp.h` is generated from these files.

mod card;
mod deliberate;
mod handle;
mod names;
mod receive_buffer;
mod send_buffer;

pub use card::*;
pub use deliberate::*;
pub use handle::*;
pub use names::*;
pub use receive_buffer::*;
pub use send_buffer::*;
