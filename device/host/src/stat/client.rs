//! The reader's side of stat sockets.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use super::{ENDING, Report};
use crate::rundir;

/// A process that has not answered within this time is stopped or overloaded.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum time from creating a socket to listening on it.
const STARTING: Duration = Duration::from_secs(10);

/// Maximum length of a report in bytes. A switch with 64 ports needs a tenth of this.
const LONGEST: u64 = 1 << 20;

/// Reads the report of the process that listens on `socket`.
pub fn read(socket: &Path) -> anyhow::Result<Report> {
    let stream =
        UnixStream::connect(socket).with_context(|| format!("cannot connect to {}", socket.display()))?;
    stream.set_read_timeout(Some(PATIENCE)).context("cannot set a time-out")?;
    let mut text = Vec::new();
    stream
        .take(LONGEST + 1)
        .read_to_end(&mut text)
        .with_context(|| format!("no counters from {} within {PATIENCE:?}", socket.display()))?;
    if text.len() as u64 > LONGEST {
        bail!("the counters from {} are too long (limit {LONGEST} bytes)", socket.display());
    }
    serde_json::from_slice(&text)
        .with_context(|| format!("{} does not speak as a stat socket", socket.display()))
}

/// Removes a socket on which no process listens: the process was killed before it could remove it.
/// The kernel then refuses the connection, in whatever PID namespace the process was. Returns
/// whether the socket was removed.
pub(crate) fn remove_if_orphaned(socket: &Path) -> bool {
    let modified = fs::symlink_metadata(socket).and_then(|found| found.modified());
    let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STARTING));
    let refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
    is_old && UnixStream::connect(socket).is_err_and(refused) && fs::remove_file(socket).is_ok()
}

/// Returns the sockets of this user's processes whose names have this ending.
pub(crate) fn sockets(ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for dir in rundir::all()? {
        // A lab and its directory may disappear during the loop.
        found.extend(sockets_in(&dir, ending).unwrap_or_default());
    }
    Ok(found)
}

/// Returns the sockets of this ending in a run directory.
pub(crate) fn sockets_in(dir: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(ending) && !remove_if_orphaned(path));
    found.sort();
    Ok(found)
}

/// Reads the reports of this user's cards and switches, switches first. Sockets without a process
/// are skipped.
pub fn all() -> anyhow::Result<Vec<Report>> {
    let mut reports = Vec::new();
    for dir in rundir::all()? {
        // A lab and its directory may disappear during the loop.
        let Ok(entries) = fs::read_dir(dir) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.to_string_lossy().ends_with(ENDING) {
                match read(&path) {
                    Ok(report) => reports.push(report),
                    Err(error) => {
                        tracing::debug!("{error:#}");
                        remove_if_orphaned(&path);
                    }
                }
            }
        }
    }
    let order = |report: &Report| (report.kind != "switch", report.name.clone(), report.pid);
    reports.sort_by_key(order);
    Ok(reports)
}
