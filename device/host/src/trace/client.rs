//! The reader's side of trace sockets.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use hamlyn_fabric::message::{connect, receive};
use hamlyn_fabric::one_way::Reader;
use hamlyn_trace::hello::{Hello, VERSION};
use hamlyn_trace::record::{GEOMETRY, Wish};

use crate::stat;

/// A process that has not answered within this time is stopped or overloaded.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length of a hello in bytes.
const LONGEST: usize = 256 << 10;

/// A process that is traced, until this is dropped.
#[derive(Debug)]
pub struct Source {
    /// What it said of itself.
    pub hello: Hello,
    /// A ring for each of its cards.
    pub readers: Vec<Reader>,
    socket: OwnedFd,
}

/// Returns the trace sockets of this user's cards.
pub fn sources() -> anyhow::Result<Vec<PathBuf>> {
    stat::sockets(stat::TRACE)
}

impl Source {
    /// Begins to trace the cards of a process. Fails if another reader does so.
    pub fn open(path: &Path, wish: Wish) -> anyhow::Result<Source> {
        let refused = || format!("no trace from {} within {PATIENCE:?}", path.display());
        let socket = connect(path, PATIENCE).with_context(refused)?;
        let (bytes, memories) = receive(&socket, LONGEST).with_context(refused)?;
        let hello: Hello = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} does not speak as a trace socket", path.display()))?;
        if hello.version != VERSION {
            bail!("process {} has traces of version {} (this program: {VERSION})", hello.pid, hello.version);
        }
        if let Some(refusal) = &hello.refusal {
            bail!("process {}: {refusal}", hello.pid);
        }
        let (cards, rings) = (hello.cards.len(), memories.len());
        ensure!(cards == rings, "process {} has {cards} cards and sent {rings} rings", hello.pid);
        let readers = memories.into_iter().map(|memory| Reader::adopt(memory, GEOMETRY));
        let readers = readers.collect::<Result<Vec<_>, _>>().context("a ring cannot be read")?;
        readers.iter().for_each(|reader| reader.set_wish(wish.to_word()));
        Ok(Source { hello, readers, socket })
    }

    /// Whether the process has ended, or ended the trace.
    pub fn has_ended(&self) -> bool {
        super::server::has_hung_up(std::os::fd::AsFd::as_fd(&self.socket))
    }
}
