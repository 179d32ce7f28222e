//! Checks that the machines run what this tree builds. Otherwise the other tests prove nothing
//! about the tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Kit, MODULE};

use crate::shared;

/// Returns the newest source file of the module.
fn newest(folder: &Path) -> Result<(SystemTime, PathBuf)> {
    let mut latest = (SystemTime::UNIX_EPOCH, folder.to_owned());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = match path.is_dir() {
            // Compiled into programs, not into the module.
            true if path.ends_with("guest-driver/host") => continue,
            true => newest(&path)?,
            false if is_source(&path) => (path.metadata()?.modified()?, path),
            false => continue,
        };
        latest = latest.max(found);
    }
    Ok(latest)
}

/// Excludes `*.mod.c`: a plain "make" leaves such generated files in the folder.
fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (name.ends_with(".c") || name.ends_with(".h")) && !name.ends_with(".mod.c")
}

#[test]
fn the_loaded_module_is_of_these_sources() -> Result<()> {
    let kit = Kit::find()?;
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-driver").canonicalize()?;
    let (changed, source) = newest(&driver)?;
    let built = kit.module.metadata().context("no module: run ./scripts/prepare")?.modified()?;
    ensure!(built >= changed, "{} is newer than the module: run ./scripts/prepare", source.display());
    shared().vm(0).require_build(MODULE, &kit.module)
}
