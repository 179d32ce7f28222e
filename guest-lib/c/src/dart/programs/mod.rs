//! Compound operations for C: `include/dart_programs.h` is generated from these files.

mod barrier;
mod caller;
mod lock;
mod log;
mod priority;
mod producer;
mod rpc;

pub use barrier::*;
pub use caller::*;
pub use lock::*;
pub use log::*;
pub use priority::*;
pub use producer::*;
pub use rpc::*;
