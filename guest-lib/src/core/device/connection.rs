//! Listeners and connections as files of the driver.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use hamlyn_abi::uapi::{UlnConnect, UlnConnectionState, UlnListen, UlnPrivate};
use hamlyn_sys::{ConnectionFile, ListenerFile};
use rustix::io::Errno;
use zerocopy::FromZeros;

use crate::core::attach::{ConnectionParts, ListenerParts};
use crate::error::{Error, Result};

/// Returns the argument that registers a name, or that of a socket. The name has been validated.
pub(super) fn listen(name: &str, backlog: u32, socket: Option<BorrowedFd<'_>>) -> UlnListen {
    let socket = socket.map_or(0, |socket| socket.as_raw_fd() as u32 + 1);
    let mut argument = UlnListen { backlog, socket, ..UlnListen::new_zeroed() };
    argument.name_length = put(&mut argument.name, name.as_bytes());
    argument
}

/// Returns the argument that requests a connection. Name and private data have been validated.
pub(super) fn connect(host: u32, name: &str, private: &[u8]) -> UlnConnect {
    let mut argument = UlnConnect { host, ..UlnConnect::new_zeroed() };
    argument.name_length = put(&mut argument.name, name.as_bytes());
    argument.private_length = put(&mut argument.data, private);
    argument
}

fn private(bytes: &[u8]) -> UlnPrivate {
    let mut argument = UlnPrivate::new_zeroed();
    argument.length = put(&mut argument.data, bytes);
    argument
}

/// Copies as many bytes as fit, and returns their number.
fn put(into: &mut [u8], bytes: &[u8]) -> u32 {
    let length = bytes.len().min(into.len());
    into[..length].copy_from_slice(&bytes[..length]);
    length as u32
}

impl ListenerParts for ListenerFile {
    fn next_request(&self) -> Result<Option<Box<dyn ConnectionParts>>> {
        match ListenerFile::next_request(self) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Error::system("take the next request for a connection")(error)),
        }
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl ConnectionParts for ConnectionFile {
    fn state(&self) -> Result<UlnConnectionState> {
        let mut state = UlnConnectionState::new_zeroed();
        self.query(&mut state).map_err(Error::system("ask how a connection stands"))?;
        Ok(state)
    }

    fn accept(&self, bytes: &[u8]) -> Result<()> {
        ConnectionFile::accept(self, &mut private(bytes)).map_err(not_connected("accept a connection"))
    }

    fn reject(&self, bytes: &[u8]) -> Result<()> {
        ConnectionFile::reject(self, &mut private(bytes)).map_err(not_connected("reject a connection"))
    }

    fn close(&self, bytes: &[u8]) -> Result<()> {
        ConnectionFile::close(self, &mut private(bytes)).map_err(not_connected("close a connection"))
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

fn not_connected(action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |error| match error.raw_os_error() {
        Some(errno) if errno == Errno::NOTCONN.raw_os_error() => Error::NotConnected,
        _ => Error::system(action)(error),
    }
}
