//! The socket that peers connect to, and its file.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use thiserror::Error;
use tracing::warn;

use crate::activation;

/// Mode bits of a folder: others may write to it, and only owners may remove files.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Why a listener cannot be created.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Another process listens there.
    #[error("socket {} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// A file of another kind has that name. It is left alone.
    #[error("{} exists and is not a socket", .0.display())]
    NotSocket(PathBuf),
    /// The system refused. A path may have at most 107 bytes.
    #[error("socket {} cannot be made: {source}", path.display())]
    System {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system.
        source: Errno,
    },
}

/// Type of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A stream of bytes.
    Stream,
    /// Messages, in order.
    Messages,
}

/// A listening UNIX socket that only its own user can connect to. Its file is removed when it is
/// dropped. A socket of the service manager has the mode that its unit says, and its file stays.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of our file, because another process may have replaced it. `None` for the
    /// service manager's.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Listens at `path`. Replaces the socket file of a dead process. Leaves the socket of a live
    /// process, and any other file, alone. Logs a warning if other users can replace the socket by
    /// one of their own. Takes over a socket that the service manager has passed for this path.
    pub fn bind(path: &Path, kind: Kind, backlog: i32) -> Result<Self, ListenError> {
        let system = |source| ListenError::System { path: path.to_owned(), source };
        if let Some(socket) = activation::take(path, kind.into()).map_err(system)? {
            return Ok(Listener { socket, path: path.to_owned(), file: None });
        }
        let address = SocketAddrUnix::new(path).map_err(system)?;
        let socket = new_socket(kind).map_err(system)?;
        // The file inherits the socket's mode, so other users can never connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(system)?;
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                remove_stale(path, kind, &address)?;
                bind(&socket, &address).map_err(system)?;
            }
            result => result.map_err(system)?,
        }
        let file = identity(path).ok_or_else(|| system(Errno::NOENT))?;
        let listener = Listener { socket, path: path.to_owned(), file: Some(file) };
        listen(&listener.socket, backlog).map_err(system)?;
        if listener.is_open_to_others() {
            warn!(
                "the folder of socket {} is open to others: they can put a socket of their own in its place",
                path.display()
            );
        }
        Ok(listener)
    }

    /// Returns the next waiting peer, if any. Its socket is non-blocking.
    pub fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        loop {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(peer) => return Ok(Some(peer)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets all users connect, for a process that checks their identity: see
    /// [`credentials`](crate::credentials()). The unit of a socket of the service manager decides
    /// that for it.
    pub fn open_to_all(&self) -> Result<(), ListenError> {
        if self.file.is_none() {
            return Ok(());
        }
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o666)).map_err(|error| {
            ListenError::System {
                path: self.path.clone(),
                source: Errno::from_io_error(&error).unwrap_or(Errno::IO),
            }
        })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether other users can replace the socket's file, because they own its folder or
    /// may remove files of other users from it.
    pub fn is_open_to_others(&self) -> bool {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let Ok(folder) = fs::metadata(folder.unwrap_or(Path::new("."))) else { return false };
        let trusted = [0, rustix::process::geteuid().as_raw()];
        let writable = folder.mode() & OTHERS_WRITE != 0 && folder.mode() & STICKY == 0;
        writable || !trusted.contains(&folder.uid())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.file.is_some() && identity(&self.path) == self.file {
            // A file that stays does no harm: the next process replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl From<Kind> for SocketType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Stream => Self::STREAM,
            Kind::Messages => Self::SEQPACKET,
        }
    }
}

fn new_socket(kind: Kind) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, kind.into(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Returns device and inode of a socket file, or `None` if it is not a socket.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = fs::symlink_metadata(path).ok()?;
    file.file_type().is_socket().then(|| (file.dev(), file.ino()))
}

/// Removes the socket file at `path` if no process listens there.
fn remove_stale(path: &Path, kind: Kind, address: &SocketAddrUnix) -> Result<(), ListenError> {
    let system = |source| ListenError::System { path: path.to_owned(), source };
    let stale = identity(path).ok_or_else(|| ListenError::NotSocket(path.to_owned()))?;
    match connect(new_socket(kind).map_err(system)?, address) {
        Err(Errno::CONNREFUSED) => remove(path, stale),
        // A socket of the other type is alive: for a dead one, `connect` fails with `ECONNREFUSED`.
        Err(error) if ![Errno::AGAIN, Errno::PROTOTYPE].contains(&error) => Err(system(error)),
        _ => Err(ListenError::InUse(path.to_owned())),
    }
}

/// Removes the stale file, unless another process has already replaced it.
fn remove(path: &Path, stale: (u64, u64)) -> Result<(), ListenError> {
    if identity(path) != Some(stale) {
        return Err(ListenError::InUse(path.to_owned()));
    }
    rustix::fs::unlink(path).map_err(|source| ListenError::System { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};
    use tempfile::tempdir;

    const KINDS: [Kind; 2] = [Kind::Stream, Kind::Messages];

    #[test]
    fn only_dead_socket_is_replaced() {
        for (kind, other) in [(KINDS[0], KINDS[1]), (KINDS[1], KINDS[0])] {
            let folder = tempdir().unwrap();
            let path = folder.path().join("card");
            // A std listener leaves its file behind when it is dropped, like a killed process.
            drop(UnixListener::bind(&path).unwrap());
            let live = Listener::bind(&path, kind, 8).unwrap();
            assert!(matches!(Listener::bind(&path, kind, 8), Err(ListenError::InUse(_))));
            assert!(matches!(Listener::bind(&path, other, 8), Err(ListenError::InUse(_))));
            let peer = new_socket(kind).unwrap();
            connect(&peer, &SocketAddrUnix::new(&path).unwrap()).unwrap();
            // The failed attempts to take its place have connected here as well.
            assert!(std::iter::from_fn(|| live.accept().unwrap()).count() >= 2);
            drop(live);
            assert!(!path.exists());
        }
    }

    #[test]
    fn socket_with_full_backlog_is_live() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("card");
        let _live = Listener::bind(&path, Kind::Stream, 0).unwrap();
        let _waits = UnixStream::connect(&path).unwrap();
        assert!(matches!(Listener::bind(&path, Kind::Stream, 0), Err(ListenError::InUse(_))));
        assert!(path.exists());
    }

    #[test]
    fn other_files_are_left_alone() {
        let folder = tempdir().unwrap();
        let (file, link, socket) =
            (folder.path().join("file"), folder.path().join("link"), folder.path().join("socket"));
        fs::write(&file, "precious").unwrap();
        drop(UnixListener::bind(&socket).unwrap());
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        for path in [&file, &link, &folder.path().to_owned()] {
            for kind in KINDS {
                assert!(matches!(Listener::bind(path, kind, 8), Err(ListenError::NotSocket(_))));
            }
        }
        assert_eq!(fs::read(&file).unwrap(), b"precious");
        assert!(link.is_symlink() && socket.exists());
    }

    #[test]
    fn a_successor_keeps_its_file() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("card");
        let old = Listener::bind(&path, Kind::Messages, 8).unwrap();
        fs::remove_file(&path).unwrap();
        let _new = Listener::bind(&path, Kind::Messages, 8).unwrap();
        drop(old);
        assert!(path.exists());
    }

    #[test]
    fn successor_of_stale_file_is_not_removed() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("card");
        drop(UnixListener::bind(&path).unwrap());
        let stale = identity(&path).unwrap();
        fs::rename(&path, folder.path().join("kept")).unwrap();
        let _quicker = Listener::bind(&path, Kind::Stream, 8).unwrap();
        assert!(matches!(remove(&path, stale), Err(ListenError::InUse(_))));
        assert!(UnixStream::connect(&path).is_ok());
    }

    #[test]
    fn only_its_own_user_can_connect() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("card");
        for kind in KINDS {
            let _listener = Listener::bind(&path, kind, 8).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        }
    }

    #[test]
    fn listener_can_be_opened_to_all() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("card");
        let listener = Listener::bind(&path, Kind::Stream, 8).unwrap();
        listener.open_to_all().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o666);
    }

    #[test]
    fn folder_open_to_others_is_detected() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("card");
        let listener = Listener::bind(&path, Kind::Stream, 8).unwrap();
        for (mode, open) in [(0o700, false), (0o755, false), (0o770, true), (0o777, true), (0o1777, false)] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(listener.is_open_to_others(), open, "{mode:o}");
        }
    }

    #[test]
    fn too_long_path_is_refused() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(200)));
        assert!(matches!(Listener::bind(&path, Kind::Stream, 8), Err(ListenError::System { .. })));
    }
}
