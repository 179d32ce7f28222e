//! A process without free descriptors. It is its own process because the limit is per process.

use std::os::fd::AsFd;

use hamlyn_fabric::message::{receive, send_with};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn receive_without_free_descriptors_fails_with_emfile() {
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let passed = [here.as_fd(), there.as_fd()];
    for _ in 0..2 {
        send_with(&there, b"two", &passed).unwrap();
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..getrlimit(Resource::Nofile) }).unwrap();
    let mut copies: Vec<_> = std::iter::from_fn(|| here.try_clone().ok()).collect();
    // Leaves room for one of the two.
    copies.pop();
    assert_eq!(receive(&here, 8).unwrap_err().raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    copies.clear();
    let (bytes, descriptors) = receive(&here, 8).unwrap();
    assert_eq!((&bytes[..], descriptors.len()), (&b"two"[..], 2));
}
