//! The server's side of stat sockets.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;

use hamlyn_door::{Kind, Listener, Porter, Porters};
use serde::Serialize;
use serde_json::Value;

use super::{Report, socket};
use crate::reception::Reception;
use crate::rundir;

/// Length of the queue of readers.
const READERS: i32 = 64;
/// Number of readers that are answered in one call.
const ANSWERED: usize = 8;

/// A process's stat socket. It never blocks: poll its descriptor for input, then call
/// [`StatServer::answer`].
#[derive(Debug)]
pub struct StatServer {
    reception: Reception,
    /// Closes readers' connections, together with the descriptors that readers have sent.
    porter: Porter,
    kind: String,
    name: String,
}

impl StatServer {
    /// Listens in the run directory as `kind` (`card`, `switch`), with a `name` for display.
    pub fn bind(kind: &str, name: &str) -> anyhow::Result<StatServer> {
        StatServer::bind_in(&rundir::open()?, kind, name)
    }

    /// Like [`StatServer::bind`], but in another directory.
    pub fn bind_in(dir: &Path, kind: &str, name: &str) -> anyhow::Result<StatServer> {
        // Only an earlier process with this process's id can have left a socket here.
        let listener = Listener::bind(&socket(dir, kind, process::id()), Kind::Stream, READERS)?;
        let porter = Porters::new(1).hire()?;
        let reception = Reception::new(listener)?;
        Ok(StatServer { reception, porter, kind: kind.into(), name: name.into() })
    }

    /// Answers the readers that wait. `counters` is called only if there are any.
    ///
    /// A reader that disconnects or does not read its answer does not affect the process.
    pub fn answer<C: Serialize>(&self, mut counters: impl FnMut() -> C) {
        for _ in 0..ANSWERED {
            let Some(reader) = self.reception.accept() else { return };
            self.tell(reader.into(), &counters());
        }
    }

    fn tell(&self, reader: UnixStream, counters: &impl Serialize) {
        let mut reader = self.porter.keep(reader);
        let counters = serde_json::to_value(counters).unwrap_or(Value::Null);
        let report =
            Report { kind: self.kind.clone(), name: self.name.clone(), pid: process::id(), counters };
        let Ok(mut text) = serde_json::to_vec(&report) else { return };
        text.push(b'\n');
        if let Err(error) = reader.write_all(&text) {
            tracing::debug!("a reader of the counters went away: {error}");
        }
    }
}

impl AsFd for StatServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reception.as_fd()
    }
}

impl AsRawFd for StatServer {
    fn as_raw_fd(&self) -> RawFd {
        self.reception.as_raw_fd()
    }
}
