//! The switch, by its socket.

mod hostile;
mod kit;
mod sockets;
