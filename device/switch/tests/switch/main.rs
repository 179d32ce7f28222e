//! The switch, by its socket.

mod express;
mod hostile;
mod kit;
mod sockets;
