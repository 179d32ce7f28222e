//! Remote procedure calls over a pair of streams: [`Server`] and [`Client`]; docs/rpc.md describes
//! the format.

// Each program uses only part of this module.
#![allow(dead_code, unused_imports)]

mod client;
mod frame;
mod line;
mod server;

pub(crate) use client::{CallError, Client};
pub(crate) use line::Lost;
pub(crate) use server::{Asker, Call, Event, Server};
