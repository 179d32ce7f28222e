//! The paper's programs (section 4) for C: `include/clan_programs.h` is generated from these files.

mod end;
mod headed;
mod queue;
mod rpc;
mod stream;
mod transfer;

pub use end::*;
pub use headed::*;
pub use queue::*;
pub use rpc::*;
pub use stream::*;
pub use transfer::*;
