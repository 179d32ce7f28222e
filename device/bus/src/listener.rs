//! The socket that clients connect to.

use rustix::fs::{Stat, stat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a socket cannot be made.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Another server listens there.
    #[error("socket {} is in use by another server", .0.display())]
    InUse(PathBuf),
    /// Something else has that name, and is left alone.
    #[error("{} exists and is not a socket", .0.display())]
    NotSocket(PathBuf),
    /// The system refuses; a path may have 107 bytes.
    #[error("socket {} cannot be made: {source}", path.display())]
    System {
        /// Where.
        path: PathBuf,
        /// Why.
        source: Errno,
    },
}

/// A listening UNIX stream socket; its file goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Whose file it is: another server may have replaced it.
    file: (u64, u64),
}

impl Listener {
    /// Listen at `path`; the socket file of a server that is dead is replaced.
    pub(crate) fn bind(path: &Path) -> Result<Self, ListenError> {
        let system = |source| ListenError::System { path: path.to_owned(), source };
        let address = SocketAddrUnix::new(path).map_err(system)?;
        let socket = new_socket().map_err(system)?;
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                remove_stale(path, &address)?;
                bind(&socket, &address).map_err(system)?;
            }
            result => result.map_err(system)?,
        }
        listen(&socket, 8).map_err(system)?;
        let file = identity(&stat(path).map_err(system)?);
        Ok(Listener { socket, path: path.to_owned(), file })
    }

    /// The next client that waits, if any.
    pub(crate) fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        loop {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(client) => return Ok(Some(client)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if stat(&self.path).is_ok_and(|stat| identity(&stat) == self.file) {
            // Nothing is lost if it stays: the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn new_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Remove the socket file at `path` if nobody listens there.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), ListenError> {
    let system = |source| ListenError::System { path: path.to_owned(), source };
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return Err(ListenError::NotSocket(path.to_owned()));
    }
    match connect(new_socket().map_err(system)?, address) {
        Err(Errno::CONNREFUSED) => rustix::fs::unlink(path).map_err(system),
        Err(error) if error != Errno::AGAIN => Err(system(error)),
        _ => Err(ListenError::InUse(path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use tempfile::tempdir;

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("card");
        // A std listener leaves its file behind when it is dropped, like a server that was killed.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let live = Listener::bind(&path).unwrap();
        assert!(matches!(Listener::bind(&path), Err(ListenError::InUse(_))));
        assert!(UnixStream::connect(&path).is_ok());
        drop(live);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_is_left_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(Listener::bind(file.path()), Err(ListenError::NotSocket(_))));
        assert!(file.path().exists());
    }

    #[test]
    fn a_successor_keeps_its_file() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("card");
        let old = Listener::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _new = Listener::bind(&path).unwrap();
        drop(old);
        assert!(path.exists());
    }

    #[test]
    fn a_path_that_is_too_long_is_an_error() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(200)));
        assert!(matches!(Listener::bind(&path), Err(ListenError::System { .. })));
    }
}
