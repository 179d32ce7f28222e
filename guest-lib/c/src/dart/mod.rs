//! DART cards for C: `include/dart.h` is generated from these files, and `include/dart_programs.h`
//! from those in `programs`.

mod address;
mod bank;
mod card;
mod connection;
mod endpoint;
mod names;
mod operation;
mod programs;
mod queue;
mod status;
mod trap;

pub use address::*;
pub use bank::*;
pub use card::*;
pub use connection::*;
pub use endpoint::*;
pub use names::*;
pub use operation::*;
pub use programs::*;
pub use queue::*;
pub use status::*;
pub use trap::*;
