//! The socket for readers of traces.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::process;

use anyhow::Context;
use hamlyn_door::{Kept, Kind, Listener, Porter, Porters};
use hamlyn_fabric::message::send_with;
use hamlyn_fabric::one_way::Writer;
use hamlyn_trace::hello::{Hello, VERSION};
use hamlyn_trace::record::GEOMETRY;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::reception::Reception;
use crate::rundir;
use crate::stat::{TRACE, process_socket};
use crate::station::Station;

/// Length of the queue of readers.
const READERS: i32 = 4;

/// A process's trace socket. It never blocks: poll its descriptor for input, then call
/// [`TraceServer::serve`].
#[derive(Debug)]
pub(crate) struct TraceServer {
    reception: Reception,
    /// Closes readers' connections, together with the descriptors that readers have sent.
    porter: Porter,
    reader: Option<Kept<OwnedFd>>,
}

impl TraceServer {
    /// Listens in the run directory as a process of this kind (`card`, `fabric`).
    pub(crate) fn bind(kind: &str) -> anyhow::Result<Self> {
        Self::bind_in(&rundir::open()?, kind)
    }

    pub(super) fn bind_in(dir: &Path, kind: &str) -> anyhow::Result<Self> {
        let socket = process_socket(dir, kind, process::id(), TRACE);
        let listener = Listener::bind(&socket, Kind::Messages, READERS)?;
        let porter = Porters::new(1).hire()?;
        Ok(Self { reception: Reception::new(listener)?, porter, reader: None })
    }

    /// Begins a trace for a reader that has connected, and ends that of one that has disconnected.
    pub(crate) fn serve<'a>(&mut self, mut stations: Vec<(&'a str, &'a mut Station)>) {
        if self.reader.as_ref().is_some_and(|reader| has_hung_up(reader.as_fd())) {
            if let Some(reader) = self.reader.take() {
                self.reception.forget(reader.as_fd());
            }
            stations.iter_mut().for_each(|(_, station)| station.set_tap(None));
        }
        if let Some(reader) = self.reception.accept() {
            self.begin(reader, stations);
        }
    }

    fn begin<'a>(&mut self, reader: OwnedFd, stations: Vec<(&'a str, &'a mut Station)>) {
        let reader = self.porter.keep(reader);
        let mut hello = Hello { version: VERSION, pid: process::id(), refusal: None, cards: Vec::new() };
        if self.reader.is_some() {
            hello.refusal = Some("another reader traces it".into());
            let _ = tell(reader.as_fd(), &hello, &[]);
            return;
        }
        let mut begun = || {
            let mut writers = Vec::new();
            for (name, station) in &stations {
                hello.cards.push(station.card_name(name));
                writers.push(Writer::new("hamlyn-trace", GEOMETRY).context("no memory for a ring")?);
            }
            let memories: Vec<BorrowedFd<'_>> = writers.iter().map(Writer::memory).collect();
            tell(reader.as_fd(), &hello, &memories)?;
            self.reception.watch(reader.as_fd())?;
            Ok::<_, anyhow::Error>(writers)
        };
        match begun() {
            Ok(writers) => {
                for ((_, station), writer) in stations.into_iter().zip(writers) {
                    station.set_tap(Some(writer));
                }
                self.reader = Some(reader);
            }
            Err(error) => tracing::warn!("cannot begin a trace: {error:#}"),
        }
    }
}

fn tell(reader: BorrowedFd<'_>, hello: &Hello, memories: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
    Ok(send_with(reader, &serde_json::to_vec(hello)?, memories)?)
}

pub(super) fn has_hung_up(reader: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&reader, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

impl AsRawFd for TraceServer {
    fn as_raw_fd(&self) -> RawFd {
        self.reception.as_raw_fd()
    }
}
