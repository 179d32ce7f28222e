//! Tests of the library with a simulated card. They are one program, so that their shared code is
//! compiled once.

#[cfg(feature = "tokio")]
mod asynchronous;
mod barrier;
mod batches;
mod channel;
mod channel_express;
#[cfg(feature = "tokio")]
mod channel_loops;
mod channel_peers;
mod clients;
mod completions;
mod connect_any;
#[cfg(debug_assertions)]
mod copies;
mod datagram;
mod fake;
mod group;
mod listeners;
mod lower_layer;
mod old_drivers;
mod own_memory;
mod receiver_class;
mod stream;
mod tagged_write;
