//! The program in a guest that starts other programs there at the host's request.
//!
//! Tests and the demo never scrape console text: the host writes [`protocol::Request`]s, one JSON
//! object a line, to a virtio-serial port, and reads [`protocol::Event`]s from it. The host's half
//! is `hamlyn_lab`.

pub mod lines;
pub mod loader;
pub mod port;
pub mod protocol;
pub mod run;
pub mod serve;
