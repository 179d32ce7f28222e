//! `hamlyn lab logs`

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use clap::Args;
use hamlyn_host::{rundir, stat};

use super::found::{self, Found};

/// Collect the logs of a lab that runs or has ended
///
/// These are the machines' consoles, what QEMU and the cards have said, the output of the runs, and
/// of a running lab also its counters. The logs of a lab that has ended are kept until the next lab
/// of its name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn lab logs --archive pair.tar
  hamlyn lab logs redis --archive folder")]
pub(super) struct LogsArgs {
    /// The lab's name, if there are several
    name: Option<String>,
    /// Where the logs go: an archive if the name ends in .tar, otherwise a new folder
    #[arg(long, value_name = "PATH")]
    archive: PathBuf,
}

pub(super) fn collect(args: &LogsArgs) -> anyhow::Result<()> {
    let lab = choose(args.name.as_deref())?;
    let target = args.archive.display();
    let count = if args.archive.extension().is_some_and(|ending| ending == "tar") {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let inner = folder.path().join(&lab.name);
        fs::create_dir(&inner)?;
        let count = copy(&lab, &inner)?;
        pack(folder.path(), &lab.name, &args.archive)?;
        count
    } else {
        fs::create_dir(&args.archive).with_context(|| format!("cannot make the folder {target}"))?;
        copy(&lab, &args.archive)?
    };
    writeln!(stdout(), "the logs of {} are in {target}: {count}", lab.name)?;
    Ok(())
}

/// Returns the directory of a running lab, or the folder of an ended one.
fn choose(name: Option<&str>) -> anyhow::Result<Found> {
    let running = found::all(rundir::LAB)?;
    let ended = found::all(rundir::ENDED)?;
    let is_running = match name {
        Some(name) => running.iter().any(|lab| lab.name == name),
        None => !running.is_empty(),
    };
    if is_running {
        return found::one("is running", running, name);
    }
    found::one("has ended", ended, name)
}

/// Copies the logs of a lab to a folder. Returns how many there are.
fn copy(lab: &Found, folder: &Path) -> anyhow::Result<usize> {
    let mut count = 0;
    let mut reports = Vec::new();
    let entries = fs::read_dir(&lab.directory);
    for entry in entries.with_context(|| format!("cannot list {}", lab.directory.display()))? {
        let path = entry?.path();
        let (Some(name), Some(ending)) = (path.file_name(), path.extension()) else { continue };
        if ending == "log" {
            fs::copy(&path, folder.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
            count += 1;
        } else if ending == "stat" {
            // Fails if the process is ending.
            reports.extend(stat::read(&path));
        }
    }
    if !reports.is_empty() {
        fs::write(folder.join("counters.json"), serde_json::to_string_pretty(&reports)?)
            .context("cannot write the counters")?;
    }
    Ok(count)
}

/// Makes an archive of a folder.
fn pack(parent: &Path, name: &str, archive: &Path) -> anyhow::Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(std::path::absolute(archive)?).arg("-C").arg(parent).arg(name);
    let made = tar.stdin(Stdio::null()).output().context("cannot run tar")?;
    if !made.status.success() {
        bail!("cannot make {}: {}", archive.display(), String::from_utf8_lossy(&made.stderr).trim_end());
    }
    ensure!(archive.is_file(), "tar has not made {}", archive.display());
    Ok(())
}
