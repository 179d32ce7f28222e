//! A copy of the repository that may be broken.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

use super::Mutant;

/// The copy. It is kept between runs, so that only changed files are rebuilt.
#[derive(Debug)]
pub struct Tree {
    /// The folder of the copy.
    pub root: PathBuf,
    /// The target folder: the same as the original's, so that both share the build of third-party
    /// code.
    pub target: PathBuf,
    /// Held as long as this value exists.
    _lock: File,
}

impl Tree {
    /// Updates the copy in `folder` from `origin`. Only one run at a time can use it.
    pub fn copy(origin: &Path, folder: &Path, target: PathBuf) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let lock = File::create(folder.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .with_context(|| format!("another run works in {}", folder.display()))?;
        let root = folder.join("tree");
        update(origin, &root, folder)?;
        rename(&root.join("Cargo.toml"))?;
        Ok(Self { root, target, _lock: lock })
    }

    /// Runs `work` while a break is in the copy.
    pub fn broken<T>(&self, mutant: &Mutant, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let file = self.root.join(&mutant.file);
        let (whole, broken) = mutant.texts(&self.root)?;
        fs::write(&file, broken)?;
        let result = work();
        fs::write(&file, whole)?;
        result
    }
}

/// Gives the copy's packages a different version. Cargo distinguishes packages by the version and
/// by their path in the workspace, which is the same in both. Without this, a later test of the
/// original would use the broken build.
fn rename(manifest: &Path) -> Result<()> {
    let text = fs::read_to_string(manifest)?;
    let (_, tail) = text.split_once("\nversion = \"").context("the workspace has no version")?;
    let (version, _) = tail.split_once('"').context("the workspace's version has no end")?;
    // Also where packages of the workspace need one another.
    let (old, new) = (format!("version = \"{version}\""), format!("version = \"{version}-break\""));
    Ok(fs::write(manifest, text.replace(&old, &new))?)
}

/// Makes `to` a copy of `from`, without hidden files, cargo's output, and `folder`, which contains
/// the copy. Identical files are not written again, so that cargo treats them as unchanged.
fn update(from: &Path, to: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if hidden || folder.starts_with(&path) || path.join("CACHEDIR.TAG").exists() {
            continue;
        }
        let copy = to.join(&name);
        let kind = entry.file_type()?;
        if kind.is_dir() {
            update(&path, &copy, folder)?;
        } else if kind.is_symlink() {
            link(&fs::read_link(&path)?, &copy)?;
        } else if fs::read(&path)? != fs::read(&copy).unwrap_or_default() || !copy.exists() {
            fs::copy(&path, &copy).with_context(|| format!("cannot copy {}", path.display()))?;
        }
        names.insert(name);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if names.contains(&entry.file_name()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes `copy` a link to the same place, if it is not one already.
fn link(place: &Path, copy: &Path) -> Result<()> {
    if fs::read_link(copy).is_ok_and(|is| is == place) {
        return Ok(());
    }
    if fs::symlink_metadata(copy).is_ok() {
        fs::remove_file(copy)?;
    }
    symlink(place, copy).with_context(|| format!("cannot make the link {}", copy.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nversion = \"1.2\"\nname = \"a\"\n[dependencies]\nb = { path = \"b\", version = \"1.2\" }\n";

    #[test]
    fn copy_updates_only_changed_files() {
        let (from, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let place = |name: &str| from.path().join(name);
        fs::create_dir_all(place("part/target")).unwrap();
        for (name, text) in [("same", "1"), ("part/other", "1"), (".hidden", "1"), ("empty", "")] {
            fs::write(place(name), text).unwrap();
        }
        fs::write(place("part/target/CACHEDIR.TAG"), "").unwrap();
        fs::write(place("Cargo.toml"), MANIFEST).unwrap();
        symlink("part", place("link")).unwrap();
        let tree = Tree::copy(from.path(), work.path(), PathBuf::new()).unwrap();
        let copied = |name: &str| fs::read_to_string(tree.root.join(name)).ok();
        assert_eq!(copied("part/other").as_deref(), Some("1"));
        // Its build is not taken for the build of the original.
        assert_eq!(copied("Cargo.toml"), Some(MANIFEST.replace("1.2", "1.2-break")));
        assert_eq!(fs::read_link(tree.root.join("link")).unwrap(), Path::new("part"));
        assert_eq!(copied("empty").as_deref(), Some(""));
        assert_eq!((copied(".hidden"), copied("part/target/CACHEDIR.TAG")), (None, None));
        assert!(Tree::copy(from.path(), work.path(), PathBuf::new()).is_err(), "one run at a time");
        let changed = |name: &str| fs::metadata(tree.root.join(name)).unwrap().modified().unwrap();
        let before = changed("same");
        fs::write(place("part/other"), "2").unwrap();
        fs::write(tree.root.join("stray"), "").unwrap();
        update(from.path(), &tree.root, work.path()).unwrap();
        assert_eq!((copied("part/other").as_deref(), copied("stray")), (Some("2"), None));
        assert_eq!(changed("same"), before);
    }

    #[test]
    fn break_exists_only_while_it_is_tested() {
        let (from, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(from.path().join("a.rs"), "n += 1;\n").unwrap();
        fs::write(from.path().join("Cargo.toml"), MANIFEST).unwrap();
        let tree = Tree::copy(from.path(), work.path(), PathBuf::new()).unwrap();
        let mutant =
            Mutant { file: "a.rs".into(), old: "+= 1".into(), new: "+= 2".into(), ..Mutant::default() };
        let text = || Ok(fs::read_to_string(tree.root.join("a.rs"))?);
        assert_eq!(tree.broken(&mutant, text).unwrap(), "n += 2;\n");
        assert_eq!(text().unwrap(), "n += 1;\n");
        assert_eq!(fs::read_to_string(from.path().join("a.rs")).unwrap(), "n += 1;\n");
    }
}
