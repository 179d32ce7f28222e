//! Tests of the switch through its socket.

mod express;
mod hostile;
mod kit;
mod sockets;
