//! A copy of the repository, in which things may be broken.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

use super::Mutant;

/// The copy. It stays from run to run: only what has changed is built anew.
#[derive(Debug)]
pub struct Tree {
    /// Where the copy is.
    pub root: PathBuf,
    /// Where it is built: where the original is, so that what others wrote is shared.
    pub target: PathBuf,
    /// Held as long as this lives.
    _lock: File,
}

impl Tree {
    /// Brings the copy in `folder` up to date with `origin`. One run at a time has it.
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

    /// Does something while a break is in the copy.
    pub fn broken<T>(&self, mutant: &Mutant, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let file = self.root.join(&mutant.file);
        let (whole, broken) = mutant.texts(&self.root)?;
        fs::write(&file, broken)?;
        let result = work();
        fs::write(&file, whole)?;
        result
    }
}

/// Gives the copy's packages a version of their own. Cargo tells packages apart by that and by
/// their place in the workspace, which is the same in both: without it, what was built of a break
/// is taken for the original's by whoever tests that next.
fn rename(manifest: &Path) -> Result<()> {
    let text = fs::read_to_string(manifest)?;
    let (head, tail) = text.split_once("\nversion = \"").context("the workspace has no version")?;
    let (version, rest) = tail.split_once('"').context("the workspace's version has no end")?;
    Ok(fs::write(manifest, format!("{head}\nversion = \"{version}-break\"{rest}"))?)
}

/// Makes `to` a copy of `from`, without hidden files, what cargo has built, and `folder`, in which
/// the copy lies. Files that are the same stay untouched, so that cargo takes them for unchanged.
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
        if entry.file_type()?.is_dir() {
            update(&path, &copy, folder)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nversion = \"1.2\"\nname = \"a\"\n";

    #[test]
    fn the_copy_follows_the_original_and_leaves_what_is_the_same() {
        let (from, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let place = |name: &str| from.path().join(name);
        fs::create_dir_all(place("part/target")).unwrap();
        for (name, text) in [("same", "1"), ("part/other", "1"), (".hidden", "1"), ("empty", "")] {
            fs::write(place(name), text).unwrap();
        }
        fs::write(place("part/target/CACHEDIR.TAG"), "").unwrap();
        fs::write(place("Cargo.toml"), MANIFEST).unwrap();
        let tree = Tree::copy(from.path(), work.path(), PathBuf::new()).unwrap();
        let copied = |name: &str| fs::read_to_string(tree.root.join(name)).ok();
        assert_eq!(copied("part/other").as_deref(), Some("1"));
        // What is built of it is not taken for what is built of the original.
        let manifest = "[package]\nversion = \"1.2-break\"\nname = \"a\"\n";
        assert_eq!(copied("Cargo.toml").as_deref(), Some(manifest));
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
    fn a_break_is_in_the_copy_only_while_it_is_looked_at() {
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
