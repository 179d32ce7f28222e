//! Remote procedure calls over a channel: [`Server`] and [`Client`]; docs/rpc.md describes
//! the format.

mod client;
mod frame;
mod line;
mod server;

pub use client::{CallError, Client};
pub use line::Lost;
pub use server::{Asker, Call, Event, Server};
