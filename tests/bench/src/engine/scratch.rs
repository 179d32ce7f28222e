//! Folders that go when the run ends, by Ctrl-C too.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Ends this process by a signal only after its folders are gone. Its children end with it.
pub fn tidy_on_signals() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            for folder in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // One that is gone already needs no more.
                let _ = std::fs::remove_dir_all(folder);
            }
            // As a shell says it of a process that a signal ended.
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// A folder that goes when it is dropped, or when a signal ends the run.
pub(crate) fn folder() -> anyhow::Result<TempDir> {
    let folder = tempfile::tempdir().context("cannot make a folder for temporary files")?;
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).push(folder.path().to_owned());
    Ok(folder)
}
