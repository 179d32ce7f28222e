//! Requested connections, answered as the tests specify.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use hamlyn::attach::ConnectionParts;
use hamlyn::{Error, Result};
use hamlyn_abi::uapi::*;
use zerocopy::FromZeros;

/// A request for a connection.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) state: u32,
    pub(super) reason: u32,
    pub(super) theirs: UnixStream,
}

#[derive(Debug)]
pub(super) struct FakeConnection {
    pub(super) host: u32,
    pub(super) asked: Arc<Mutex<Asked>>,
    pub(super) file: UnixStream,
}

impl FakeConnection {
    pub(super) fn undecided(host: u32) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        // A full socket is neither readable nor writable.
        while (&ours).write(&[0; 4096]).is_ok() {}
        let asked = Arc::new(Mutex::new(Asked { state: ULN_CONNECTION_CONNECTING, reason: 0, theirs }));
        Self { host, asked, file: ours }
    }
}

impl Asked {
    /// Ends the request for a reason (`ULN_END_*`).
    pub(super) fn end(&mut self, reason: u32) {
        (self.state, self.reason) = (ULN_CONNECTION_ENDED, reason);
        self.theirs.write_all(b"news").unwrap();
    }
}

impl ConnectionParts for FakeConnection {
    fn state(&self) -> Result<UlnConnectionState> {
        let asked = self.asked.lock().unwrap();
        let (state, reason, host) = (asked.state, asked.reason, self.host);
        Ok(UlnConnectionState { state, reason, host, ..FromZeros::new_zeroed() })
    }

    fn accept(&self, _: &[u8]) -> Result<()> {
        Err(Error::NotConnected)
    }

    fn reject(&self, _: &[u8]) -> Result<()> {
        Err(Error::NotConnected)
    }

    fn close(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
