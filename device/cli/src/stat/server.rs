//! The side of the process that counts.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

use super::{Report, socket};
use crate::rundir;

/// A process's stat socket. It never blocks: watch its descriptor for input, then call [`StatServer::answer`].
#[derive(Debug)]
pub struct StatServer {
    listener: UnixListener,
    path: PathBuf,
    kind: String,
    name: String,
}

impl StatServer {
    /// Listens in the run directory as `kind` (`card`, `switch`) with a `name` for people.
    pub fn bind(kind: &str, name: &str) -> anyhow::Result<StatServer> {
        StatServer::bind_in(&rundir::open()?, kind, name)
    }

    /// The same in another directory.
    pub fn bind_in(dir: &Path, kind: &str, name: &str) -> anyhow::Result<StatServer> {
        let path = socket(dir, kind, process::id());
        // Only an earlier process with our id can have left one here.
        let _ = fs::remove_file(&path);
        let listener =
            UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        listener.set_nonblocking(true).context("cannot make the stat socket non-blocking")?;
        Ok(StatServer { listener, path, kind: kind.into(), name: name.into() })
    }

    /// Answers everyone who waits. `counters` is called only if somebody does.
    ///
    /// A reader that goes away or does not read its answer is no concern of the process that counts.
    pub fn answer<C: Serialize>(&self, mut counters: impl FnMut() -> C) {
        loop {
            match self.listener.accept() {
                Ok((reader, _)) => self.tell(reader, &counters()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return tracing::warn!("cannot answer on {}: {error}", self.path.display()),
            }
        }
    }

    fn tell(&self, mut reader: UnixStream, counters: &impl Serialize) {
        let counters = serde_json::to_value(counters).unwrap_or(Value::Null);
        let report =
            Report { kind: self.kind.clone(), name: self.name.clone(), pid: process::id(), counters };
        let Ok(mut text) = serde_json::to_vec(&report) else { return };
        text.push(b'\n');
        if let Err(error) = reader.set_nonblocking(true).and_then(|()| reader.write_all(&text)) {
            tracing::debug!("a reader of the counters went away: {error}");
        }
    }
}

impl AsFd for StatServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl AsRawFd for StatServer {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

impl Drop for StatServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
