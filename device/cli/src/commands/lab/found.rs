//! Running labs, and their end.

use std::fs;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use hamlyn_host::rundir;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a lab may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// End a running lab
///
/// The same as Ctrl-C in its terminal. Removes the directory of a lab that was killed together with
/// all its processes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn lab down          the only lab
  hamlyn lab down pair")]
pub(super) struct DownArgs {
    /// The lab's name, if several are running
    name: Option<String>,
}

/// A lab's directory, or the folder with the logs of an ended lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) directory: PathBuf,
}

/// Returns what has names with this prefix in the run directory.
pub(super) fn all(prefix: &str) -> anyhow::Result<Vec<Found>> {
    let found = rundir::all()?.into_iter().filter_map(|directory| {
        let name = directory.file_name()?.to_str()?.strip_prefix(prefix)?.to_owned();
        Some(Found { name, directory })
    });
    Ok(found.collect())
}

/// Returns the one of this name, or the only one. `state` says what they do: "is running" or "has
/// ended".
pub(super) fn one(state: &str, found: Vec<Found>, name: Option<&str>) -> anyhow::Result<Found> {
    let names = found.iter().map(|lab| lab.name.clone()).collect::<Vec<_>>().join(", ");
    let wanted = |lab: &&Found| name.is_none_or(|name| name == lab.name);
    let mut all = found.iter().filter(wanted);
    match (all.next(), all.next(), name) {
        (Some(lab), None, _) => Ok(lab.clone()),
        (Some(_), ..) => bail!("name one of these labs: {names}"),
        (None, _, Some(name)) if !found.is_empty() => {
            bail!("no lab of the name {name:?} {state}; the names are: {names}")
        }
        (None, ..) => bail!("no lab {state}"),
    }
}

pub(super) fn down(args: &DownArgs) -> anyhow::Result<()> {
    let lab = one("is running", all(rundir::LAB)?, args.name.as_deref())?;
    if rundir::is_left_over(&lab.directory) {
        fs::remove_dir_all(&lab.directory)
            .with_context(|| format!("cannot remove {}", lab.directory.display()))?;
        writeln!(stdout(), "{} was killed: its directory is removed", lab.name)?;
        return Ok(());
    }
    let process = hamlyn_lab::owner(&lab.directory)?;
    let gone = || format!("process {}, which runs {}, is gone", process.as_raw_nonzero(), lab.name);
    let handle = pidfd_open(process, PidfdFlags::empty()).with_context(gone)?;
    // The handle is that of the lab's process, and not of a later one with its number.
    ensure!(hamlyn_lab::owner(&lab.directory)? == process, "{} has just been started again", lab.name);
    pidfd_send_signal(&handle, Signal::TERM).with_context(gone)?;
    let deadline = Instant::now() + PATIENCE;
    while lab.directory.exists() {
        if Instant::now() > deadline {
            bail!("{} has not ended after {PATIENCE:?}: process {}", lab.name, process.as_raw_nonzero());
        }
        sleep(Duration::from_millis(50));
    }
    writeln!(stdout(), "{} has ended", lab.name)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lab_needs_no_name() {
        let lab = |name: &str| Found { name: name.into(), directory: name.into() };
        let find = |names: &[&str], name: Option<&str>| {
            let found = names.iter().map(|name| lab(name)).collect();
            one("is running", found, name).map(|lab| lab.name).map_err(|error| error.to_string())
        };
        assert_eq!(find(&["a"], None), Ok("a".into()));
        assert_eq!(find(&["a", "b"], Some("b")), Ok("b".into()));
        assert_eq!(find(&[], Some("b")), Err("no lab is running".into()));
        assert_eq!(find(&["a", "b"], None), Err("name one of these labs: a, b".into()));
        let other = "no lab of the name \"c\" is running; the names are: a, b";
        assert_eq!(find(&["a", "b"], Some("c")), Err(other.into()));
    }
}
