//! The agent: a program in a guest that starts other programs there at the host's request.
//!
//! Tests and the demo never parse console text. The host writes [`protocol::Request`]s to a
//! virtio-serial port or a vsock device, one JSON object per line, and reads [`protocol::Event`]s
//! from it. `hamlyn_lab` is the host's side.

pub mod lines;
pub mod loader;
pub mod port;
pub mod protocol;
pub mod run;
pub mod serve;
pub mod vsock;
