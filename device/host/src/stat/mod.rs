//! Counters that a user can read while cards and switches run.
//!
//! Each process listens on its own socket in the [run directory](crate::rundir). A client that
//! connects receives one JSON object, a [`Report`], and then the end of the stream. `hamlyn stat`
//! does this, and `socat` works too.

mod client;
mod server;

pub use client::{Answer, PATIENCE, StatError, all, read, survey};
pub(crate) use client::{sockets, sockets_in};
pub use server::StatServer;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A process's report of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `card`, `switch` or `fabric`.
    pub kind: String,
    /// Its name among processes of its kind: `card0`.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// Numbers by name, grouped by objects.
    pub counters: Value,
}

/// Suffix of stat sockets' names.
const ENDING: &str = ".stat";
/// Suffix of trace sockets' names.
pub(crate) const TRACE: &str = ".tap";
/// Suffix of fault sockets' names.
pub(crate) const FAULTS: &str = ".rule";
/// Suffixes of all sockets that a process has in the run directory.
const ENDINGS: [&str; 3] = [ENDING, TRACE, FAULTS];

/// Returns the socket path of the process with this id in this PID namespace. Containers that share
/// the run directory have separate process ids, so the namespace is part of the name.
pub fn socket(dir: &Path, kind: &str, pid: u32) -> PathBuf {
    process_socket(dir, kind, pid, ENDING)
}

/// Like [`socket`], for any of a process's sockets. No ending is longer than [`ENDING`].
pub(crate) fn process_socket(dir: &Path, kind: &str, pid: u32, ending: &str) -> PathBuf {
    let namespace = *NAMESPACE;
    dir.join(format!("{kind}-{namespace}-{pid}{ending}"))
}

/// Returns the kind and the process id in a stat socket's name.
pub fn owner(socket: &Path) -> Option<(&str, u32)> {
    let name = socket.file_name()?.to_str()?.strip_suffix(ENDING)?;
    let (rest, pid) = name.rsplit_once('-')?;
    let (kind, _namespace) = rest.rsplit_once('-')?;
    Some((kind, pid.parse().ok()?))
}

/// Number of this process's PID namespace; 0 without `/proc`.
static NAMESPACE: LazyLock<u64> = LazyLock::new(|| {
    let inode = std::fs::metadata("/proc/self/ns/pid").map(|found| found.ino());
    inode.unwrap_or(0)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sockets_name_has_its_owner() {
        let path = socket(Path::new("/run/a-b-1"), "card", 42);
        assert_eq!(owner(&path), Some(("card", 42)));
        for other in ["/run/card-1-x.stat", "/run/card-1.stat", "/run/card-1-2.trace", "/"] {
            assert_eq!(owner(Path::new(other)), None, "{other}");
        }
    }
}
