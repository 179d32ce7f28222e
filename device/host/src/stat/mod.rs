//! Counters that a person can read while cards and switches run.
//!
//! Each process listens on a socket of its own in the [run directory](crate::rundir). Whoever
//! connects receives one JSON object, a [`Report`], and the end of the stream: `hamlyn stat` does,
//! and so can `socat`.

mod client;
mod server;

pub use client::{all, read};
pub use server::StatServer;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a process says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `card`, `switch` or `fabric`.
    pub kind: String,
    /// Its name among its kind: `card0`.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// Numbers by name; objects group them.
    pub counters: Value,
}

/// The ending of stat sockets' names.
const ENDING: &str = ".stat";

/// Where the process with this id in this PID namespace listens. Containers that share the run
/// directory have process ids of their own, so the namespace is a part of the name.
pub fn socket(dir: &Path, kind: &str, pid: u32) -> PathBuf {
    let namespace = *NAMESPACE;
    dir.join(format!("{kind}-{namespace}-{pid}{ENDING}"))
}

/// The number of this process's PID namespace; 0 without `/proc`.
static NAMESPACE: LazyLock<u64> = LazyLock::new(|| {
    let inode = std::fs::metadata("/proc/self/ns/pid").map(|found| found.ino());
    inode.unwrap_or(0)
});
