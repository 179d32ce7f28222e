//! Who is at the other end of a socket.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;

/// The process at the other end as it was when it connected, or, of a listener, when it began to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Its number, as seen from here.
    pub process: i32,
    /// Its user.
    pub user: u32,
    /// Its group.
    pub group: u32,
}

/// Asks the kernel, not the peer. An error, too, if its process cannot be seen from here.
pub fn credentials(socket: impl AsFd) -> Result<Credentials, Errno> {
    let peer = socket_peercred(socket)?;
    Ok(Credentials {
        process: peer.pid.as_raw_nonzero().get(),
        user: peer.uid.as_raw(),
        group: peer.gid.as_raw(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_is_known() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = credentials(&one).unwrap();
        assert_eq!(peer.process, std::process::id() as i32);
        assert_eq!(peer.user, rustix::process::getuid().as_raw());
        assert_eq!(peer.group, rustix::process::getgid().as_raw());
    }
}
