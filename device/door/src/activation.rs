//! Sockets that a service manager listens on, and passes to the process that it starts for them:
//! `sd_listen_fds(3)` of systemd. A listener at the path of such a socket takes it over.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{SocketAddrUnix, SocketType, getsockname, sockopt};
use tracing::warn;

/// The passed sockets that no listener has taken, with their paths.
static PASSED: OnceLock<Mutex<Vec<(PathBuf, OwnedFd)>>> = OnceLock::new();

fn passed() -> &'static Mutex<Vec<(PathBuf, OwnedFd)>> {
    PASSED.get_or_init(|| {
        let all = sd_listen_fds::get().unwrap_or_else(|error| {
            warn!("the sockets of the service manager are not used: {error}");
            Vec::new()
        });
        let sockets = all.into_iter().map(|(_, socket)| socket.into_std());
        Mutex::new(sockets.filter_map(|socket| Some((path(&socket)?, socket))).collect())
    })
}

/// Returns the path that a UNIX socket is bound to.
fn path(socket: &OwnedFd) -> Option<PathBuf> {
    let address = SocketAddrUnix::try_from(getsockname(socket).ok()?).ok()?;
    Some(Path::new(address.path()?.to_str().ok()?).to_owned())
}

/// Takes the passed socket that listens at `path`, if any. Fails with `EPROTOTYPE` if it is of
/// another type.
pub(crate) fn take(path: &Path, kind: SocketType) -> Result<Option<OwnedFd>, Errno> {
    let mut passed = passed().lock().unwrap_or_else(PoisonError::into_inner);
    let Some(at) = passed.iter().position(|(of, _)| of == path) else { return Ok(None) };
    let socket = passed.swap_remove(at).1;
    if sockopt::socket_type(&socket)? != kind || !sockopt::socket_acceptconn(&socket)? {
        return Err(Errno::PROTOTYPE);
    }
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&socket, true)?;
    Ok(Some(socket))
}

/// Logs a warning for each socket of the service manager that no listener has taken: its clients
/// wait in vain.
pub fn warn_of_unused_sockets() {
    for (path, _) in passed().lock().unwrap_or_else(PoisonError::into_inner).iter() {
        warn!(
            "the service manager listens at {}, which this process was not told to serve: give its unit the same path",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Output};

    use rustix::io::fcntl_getfd;

    use crate::{Kind, Listener};

    /// Environment variable with the socket's path for the test's second process, which gets the
    /// socket as a service does.
    const SOCKET: &str = "HAMLYN_TEST_PASSED_SOCKET";

    /// Runs a test of this program in a process that is passed the socket.
    fn started_for(socket: UnixListener, path: &std::path::Path, test: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" --exact \"$1\" 3<&0"]);
        shell.arg(std::env::current_exe().unwrap()).arg(format!("activation::tests::{test}"));
        shell.env(SOCKET, path).stdin(std::os::fd::OwnedFd::from(socket)).output().unwrap()
    }

    #[test]
    fn listener_takes_over_socket_of_service_manager() {
        if let Some(path) = std::env::var_os(SOCKET) {
            let listener = Listener::bind(path.as_ref(), Kind::Stream, 8).unwrap();
            assert!(fcntl_getfd(&listener).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
            // The client that the service was started for.
            let mut client = UnixStream::from(listener.accept().unwrap().unwrap());
            client.write_all(b"welcome").unwrap();
            assert!(listener.accept().unwrap().is_none());
            listener.open_to_all().unwrap();
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixListener::bind(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions();
        let client = UnixStream::connect(&path).unwrap();
        let result = started_for(socket, &path, "listener_takes_over_socket_of_service_manager");
        let said = String::from_utf8_lossy(&result.stdout);
        assert!(result.status.success() && said.contains("1 passed"), "{said}");
        assert_eq!(std::io::read_to_string(client).unwrap(), "welcome");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions(), mode);
    }

    #[test]
    fn passed_socket_of_another_type_is_refused() {
        if let Some(path) = std::env::var_os(SOCKET) {
            let refused = Listener::bind(path.as_ref(), Kind::Messages, 8).unwrap_err().to_string();
            assert!(refused.contains(path.to_str().unwrap()) && refused.contains("wrong type"), "{refused}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixListener::bind(&path).unwrap();
        let result = started_for(socket, &path, "passed_socket_of_another_type_is_refused");
        let said = String::from_utf8_lossy(&result.stdout);
        assert!(result.status.success() && said.contains("1 passed"), "{said}");
        assert!(path.exists());
    }
}
