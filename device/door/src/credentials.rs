//! The process at the other end of a socket.
//!
//! Every process that decides by a peer's user does it here. The kernel returns process id 0 for a
//! peer in a foreign PID namespace. `rustix` reads `SO_PEERCRED` into a type whose process id
//! cannot be 0; `nix` keeps the plain numbers.

use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::io::Errno;

/// The peer's process at the time when it connected. For a listener: at the time when it began to
/// listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Process id in this PID namespace. `None` for a process that is not in it, such as one
    /// outside our container.
    pub process: Option<i32>,
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

/// Returns the peer's credentials. They come from the kernel, so the peer cannot choose them.
pub fn credentials(socket: impl AsFd) -> Result<Credentials, Errno> {
    let peer =
        getsockopt(&socket, PeerCredentials).map_err(|error| Errno::from_raw_os_error(error as i32))?;
    let process = Some(peer.pid()).filter(|process| *process > 0);
    Ok(Credentials { process, user: peer.uid(), group: peer.gid() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;

    /// Environment variable with the socket's path for the test's second process, which is the same
    /// program in a PID namespace of its own.
    const SOCKET: &str = "HAMLYN_TEST_PEER_SOCKET";

    #[test]
    fn own_end_has_own_credentials() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = credentials(&one).unwrap();
        assert_eq!(peer.process, Some(std::process::id() as i32));
        assert_eq!(peer.user, rustix::process::getuid().as_raw());
        assert_eq!(peer.group, rustix::process::getgid().as_raw());
    }

    #[test]
    fn peer_outside_pid_namespace_has_user_alone() {
        if let Some(path) = std::env::var_os(SOCKET) {
            let peer = credentials(UnixStream::connect(path).unwrap()).unwrap();
            assert_eq!((peer.process, peer.user), (None, rustix::process::getuid().as_raw()));
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let mut inside = Command::new("unshare");
        if !rustix::process::getuid().is_root() {
            inside.args(["--user", "--map-root-user"]);
        }
        inside.args(["--pid", "--fork"]).arg(std::env::current_exe().unwrap()).env(SOCKET, &path);
        let result = inside.args(["peer_outside_pid_namespace_has_user_alone"]).output().unwrap();
        let said = String::from_utf8_lossy(&result.stdout);
        assert!(result.status.success() && said.contains("1 passed"), "{said}");
    }
}
