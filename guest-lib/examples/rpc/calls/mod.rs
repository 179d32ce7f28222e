//! Remote procedure calls over a pair of streams: [`Server`] and [`Client`]; docs/rpc.md has the
//! format.

// Every program uses a part of it.
#![allow(dead_code, unused_imports)]

mod client;
mod frame;
mod line;
mod server;

pub(crate) use client::{CallError, Client};
pub(crate) use line::Lost;
pub(crate) use server::{Asker, Call, Event, Server};
