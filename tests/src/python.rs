//! The package for Python, and the library that it loads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use hamlyn_lab::Kit;

/// Returns the package's folder in the sources.
#[must_use]
pub fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-lib/python")
}

/// Makes the shared library, as programs see the one of `scripts/install`.
pub fn shared_library(folder: &Path) -> Result<PathBuf> {
    let (names, library) = (folder.join("names"), folder.join("libhamlyn.so"));
    fs::write(&names, "{ global: uln_*; local: *; };\n")?;
    let mut link = Command::new("cc");
    link.args(["-shared", "-s", "-Wl,--gc-sections", "-Wl,--whole-archive"]);
    link.arg(Kit::find()?.program("libhamlyn_c.a")?).arg("-Wl,--no-whole-archive");
    link.arg(format!("-Wl,--version-script={}", names.display()));
    let made = link.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&library).output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(library)
}
