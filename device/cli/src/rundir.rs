//! Where running processes keep their sockets: a directory of this user alone.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Names the run directory; set for every process that a lab starts.
pub const VARIABLE: &str = "HAMLYN_RUN";

/// A UNIX socket's path has at most 107 bytes: this leaves room for a lab's directory and a socket's name.
const LONGEST: usize = 70;

/// The run directory, made if it is missing: `$HAMLYN_RUN`, else `$XDG_RUNTIME_DIR/hamlyn`, else `/tmp/hamlyn-UID`.
///
/// Whoever can write there can reach the cards' memory, so it must be this user's own, with mode 0700.
pub fn open() -> anyhow::Result<PathBuf> {
    let dir = path();
    if dir.as_os_str().len() > LONGEST {
        bail!("the run directory {} is too long (limit {LONGEST} bytes): set {VARIABLE}", dir.display());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .with_context(|| format!("cannot make the run directory {}", dir.display()))?;
    check(&dir)?;
    Ok(dir)
}

fn path() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(VARIABLE)
        .or_else(|| set("XDG_RUNTIME_DIR").map(|dir| dir.join("hamlyn")))
        .unwrap_or_else(|| env::temp_dir().join(format!("hamlyn-{}", own_uid())))
}

fn check(dir: &Path) -> anyhow::Result<()> {
    let found = fs::symlink_metadata(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
    if !found.is_dir() || found.uid() != own_uid() || found.mode() & 0o077 != 0 {
        bail!(
            "the run directory {} must be a directory of user {} with mode 700, not mode {:o} of user {}",
            dir.display(),
            own_uid(),
            found.mode() & 0o777,
            found.uid()
        );
    }
    Ok(())
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The run directory and the directories of the labs in it.
pub fn all() -> anyhow::Result<Vec<PathBuf>> {
    let top = open()?;
    let mut dirs: Vec<PathBuf> = fs::read_dir(&top)
        .with_context(|| format!("cannot list {}", top.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_dir())
        .collect();
    dirs.sort();
    dirs.insert(0, top);
    Ok(dirs)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        check(dir.path()).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o750)).unwrap();
        let error = check(dir.path()).unwrap_err().to_string();
        assert!(error.contains("not mode 750"), "{error}");
    }
}
