//! The TCP side of a connection.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, ReturnFlags, SendFlags};

use crate::stream::Tcp;

/// The TCP side. The descriptor is this library's own.
#[derive(Debug)]
pub(super) struct Connection(pub(super) OwnedFd);

impl Tcp for Connection {
    fn peek(&mut self, to: &mut [u8]) -> Result<usize, i32> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.0, to, flags).map(|(got, _)| got).map_err(Errno::raw_os_error)
    }

    fn receive(&mut self, to: &mut [IoSliceMut<'_>], limit: usize) -> Result<usize, i32> {
        self.receive_with(to, limit, RecvFlags::empty())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, i32> {
        self.send_all(&[IoSlice::new(bytes)])
    }
}

impl Connection {
    pub(super) fn receive_with(
        &self,
        to: &mut [IoSliceMut<'_>],
        limit: usize,
        flags: RecvFlags,
    ) -> Result<usize, i32> {
        let mut left = limit;
        let mut parts: Vec<IoSliceMut<'_>> = Vec::with_capacity(to.len());
        for part in to.iter_mut().filter(|part| !part.is_empty()) {
            let length = part.len().min(left);
            left -= length;
            if length > 0 {
                parts.push(IoSliceMut::new(&mut part[..length]));
            }
        }
        let received = rustix::net::recvmsg(
            &self.0,
            &mut parts,
            &mut rustix::net::RecvAncillaryBuffer::default(),
            flags | RecvFlags::DONTWAIT,
        );
        received
            .map(|message| if message.flags.contains(ReturnFlags::ERRQUEUE) { 0 } else { message.bytes })
            .map_err(Errno::raw_os_error)
    }

    /// Waits for bytes, but not for long.
    pub(super) fn wait(&self) {
        let mut files = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        // Whatever ends the wait, the caller looks.
        let _ = poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 }));
    }

    /// Drops what has arrived. Returns whether more may come.
    pub(super) fn discard(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.receive(&mut [IoSliceMut::new(&mut bytes)], 4096) {
                Ok(1..) => {}
                Err(libc::EAGAIN) => return true,
                _ => return false,
            }
        }
    }

    pub(super) fn send_all(&self, from: &[IoSlice<'_>]) -> Result<usize, i32> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.0, from, &mut rustix::net::SendAncillaryBuffer::default(), flags)
            .map_err(Errno::raw_os_error)
    }
}
