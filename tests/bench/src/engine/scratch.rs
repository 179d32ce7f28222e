//! Folders that are removed when the run ends, also by Ctrl-C.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Makes a signal end this process only after its folders are removed. Its children end with it.
pub fn tidy_on_signals() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            for folder in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // It may have been removed already.
                let _ = std::fs::remove_dir_all(folder);
            }
            // The exit status that a shell reports for a process that a signal ended.
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Creates a folder that is removed when it is dropped, or when a signal ends the run.
pub(crate) fn folder() -> anyhow::Result<TempDir> {
    let folder = tempfile::tempdir().context("cannot make a folder for temporary files")?;
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).push(folder.path().to_owned());
    Ok(folder)
}
