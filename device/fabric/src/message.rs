//! Messages on SEQPACKET sockets, with the descriptors that they carry.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};

use crate::express::MOST_HOSTS;

/// Connects to the listener at `path`. The socket waits at most `timeout` for each message.
pub fn connect(path: &Path, timeout: Duration) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    for direction in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, direction, Some(timeout))?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Repeats a call that was interrupted by a signal.
pub fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Room for the descriptors of a message: one more than any message has, so that a receiver notices
/// one too many. The maximum is the rings' memory and a file of express memory for each other host.
/// (The kernel accepts 253.)
const DESCRIPTORS: usize = 1 + MOST_HOSTS as usize;

/// Receives the next message, at most `most` bytes of it, and the descriptors that it carries.
/// Fails with `EMFILE` if this process has no room for them.
pub fn receive(socket: impl AsFd, most: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; most];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry(|| {
        recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    bytes.truncate(received.bytes);
    let is_cut = received.flags.contains(ReturnFlags::CTRUNC);
    let descriptors: Vec<_> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if is_cut && descriptors.len() < DESCRIPTORS {
        return Err(Errno::MFILE.into());
    }
    Ok((bytes, descriptors))
}

/// Sends a message with descriptors. Never blocks.
pub fn send_with(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("no space for a message's descriptors"));
    }
    let how = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retry(|| sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, how)).map(drop)
}
