//! Protocols on top of the lower layer (section 3.3).

pub mod barrier;
pub mod datagram;
pub mod stream;
pub mod tagged_write;
