//! TCP connections of unmodified programs, over channels of any card.
//!
//! The loader puts this library before the C library (`hamlyn-run`, which sets `LD_PRELOAD`). It
//! stands in for the functions by which programs connect, receive, send and wait. A connection over
//! IPv4 between two machines of the fabric begins on TCP, and goes on over a channel once both ends
//! have this library and the connection has proved to last; `docs/sockets.md` says more.
//!
//! Layers, each of which knows only those before it: `stream`, a connection that switches, without
//! sockets or cards; `environment`; `foreign`, the kernel's calls; `link` and `node`, channels and
//! the card; `socket`, a connection of the program; `table`, `epoll` and `poll`, its descriptors
//! and how it waits for them; `start`; and `exports`, the C library's functions.

// The functions that programs call: their manual pages say what they require.
#![allow(clippy::missing_safety_doc)]

mod bell;
mod environment;
mod epoll;
mod exports;
mod foreign;
mod link;
mod node;
mod poll;
mod report;
mod socket;
mod start;
mod stream;
mod table;
