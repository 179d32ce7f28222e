//! Where running processes keep their sockets: a directory of this user alone.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use hamlyn_fabric::express::MOST_HOSTS;
use rustix::fs::{FlockOperation, flock};

/// Names the run directory; set for every process that a lab starts.
pub const VARIABLE: &str = "HAMLYN_RUN";

/// A UNIX socket's path has at most this many bytes.
const LONGEST_SOCKET: usize = 107;

/// What is left for a directory with sockets: the longest name is that of a socket for counters
/// (see [`crate::stat::socket`]).
const LONGEST: usize = LONGEST_SOCKET - "/fabric-4026531836-4194304.stat".len();

/// What the socket of a card's second function is called more than the card's.
const DOORBELL: &str = ".doorbell";

/// The same for the socket where a plugin tells of its machine's stores: no longer than that.
const SNOOP: &str = ".snoop";

/// The same for the socket of the function that has all of its express memory.
const EXPRESS: &str = ".express";

/// The same for the sockets of functions that have each the part with one other host, whose id
/// follows.
const PEER: &str = ".peer";

/// Returns the run directory, and makes it if it is missing: `$HAMLYN_RUN`, else
/// `$XDG_RUNTIME_DIR/hamlyn` if `$XDG_RUNTIME_DIR` belongs to this user (after `su` it is
/// another's), else `/tmp/hamlyn-UID`.
///
/// A process that can write there can reach the cards' memory, so it must be this user's own, with
/// mode 0700.
pub fn open() -> anyhow::Result<PathBuf> {
    let dir = path();
    has_room(&dir)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .with_context(|| format!("cannot make the run directory {}: set {VARIABLE}", dir.display()))?;
    check(&dir)?;
    Ok(dir)
}

/// Returns the run directory if there is one: a reader makes none.
fn find() -> anyhow::Result<Option<PathBuf>> {
    let dir = path();
    has_room(&dir)?;
    match fs::symlink_metadata(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        _ => check(&dir)?,
    }
    Ok(Some(dir))
}

/// Fails if the paths of sockets in this directory would be too long, or are no text that QEMU
/// could be told.
pub fn has_room(dir: &Path) -> anyhow::Result<()> {
    let length = dir.as_os_str().len();
    if length > LONGEST || dir.to_str().is_none() {
        bail!(
            "the run directory {} has {length} bytes (limit {LONGEST}, of UTF-8): set {VARIABLE}",
            dir.display()
        );
    }
    Ok(())
}

/// A socket's path from the command line.
pub fn socket_path(text: &str) -> Result<PathBuf, String> {
    path_of_at_most(LONGEST_SOCKET, text)
}

/// The path of a card's socket, beside which there is room for that of its second function.
pub fn card_path(text: &str) -> Result<PathBuf, String> {
    path_of_at_most(LONGEST_SOCKET - DOORBELL.len(), text)
}

fn path_of_at_most(limit: usize, text: &str) -> Result<PathBuf, String> {
    match text.len() {
        0 => Err("the path is empty".into()),
        length if length > limit => Err(format!("the path of a socket has {length} bytes (limit {limit})")),
        _ => Ok(text.into()),
    }
}

/// Where a card's second function listens.
pub fn doorbell_path(card: &Path) -> PathBuf {
    beside(card, DOORBELL)
}

/// Where a card listens for the plugin of its machine's QEMU.
pub fn snoop_path(card: &Path) -> PathBuf {
    beside(card, SNOOP)
}

/// Where the function listens that has the card's express memory, if it has any: all of it, or the
/// part with one other host.
pub fn express_path(card: &Path, peer: Option<u16>) -> PathBuf {
    match peer {
        None => beside(card, EXPRESS),
        Some(host) => beside(card, &format!("{PEER}{host}")),
    }
}

/// All places where such functions may listen: that of all, and those of other hosts in the order
/// of their ids.
pub fn express_paths(card: &Path) -> impl Iterator<Item = PathBuf> {
    [None].into_iter().chain((0..MOST_HOSTS).map(Some)).map(|peer| express_path(card, peer))
}

fn beside(card: &Path, more: &str) -> PathBuf {
    let mut path = card.as_os_str().to_owned();
    path.push(more);
    path.into()
}

/// Where the run directory is, or would be.
pub fn path() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let is_own = |dir: &PathBuf| fs::metadata(dir).is_ok_and(|found| found.uid() == own_uid());
    set(VARIABLE)
        .or_else(|| set("XDG_RUNTIME_DIR").filter(is_own).map(|dir| dir.join("hamlyn")))
        .unwrap_or_else(|| env::temp_dir().join(format!("hamlyn-{}", own_uid())))
}

fn check(dir: &Path) -> anyhow::Result<()> {
    let found = fs::symlink_metadata(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
    if !found.is_dir() || found.uid() != own_uid() || found.mode() & 0o077 != 0 {
        bail!(
            "the run directory {} must be a directory of user {} with mode 700, not mode {:o} of user {}: \
             remove it, or set {VARIABLE} to another",
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

/// The run directory, if there is one, and the directories of the labs in it.
pub fn all() -> anyhow::Result<Vec<PathBuf>> {
    let Some(top) = find()? else { return Ok(Vec::new()) };
    let mut dirs: Vec<PathBuf> = fs::read_dir(&top)
        .with_context(|| format!("cannot list {}", top.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_dir())
        .collect();
    dirs.sort();
    dirs.insert(0, top);
    Ok(dirs)
}

/// How the names of labs' directories begin.
pub const LAB: &str = "lab-";

/// Locks a lab's directory for as long as the file is open: the lab still runs.
pub fn claim(dir: &Path) -> anyhow::Result<File> {
    let file = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
    flock(&file, FlockOperation::NonBlockingLockShared)
        .with_context(|| format!("cannot lock {}", dir.display()))?;
    Ok(file)
}

/// Whether a lab's directory is no longer claimed: all of the lab ended so suddenly that nobody
/// could remove it.
pub fn is_left_over(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(LAB)
        && File::open(dir).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_card_has_further_sockets_beside_its_own() {
        assert_eq!(doorbell_path(Path::new("/run/c0.sock")), Path::new("/run/c0.sock.doorbell"));
        assert_eq!(snoop_path(Path::new("/run/c0.sock")), Path::new("/run/c0.sock.snoop"));
        let longest = "x".repeat(98);
        assert_eq!(doorbell_path(&card_path(&longest).unwrap()).as_os_str().len(), LONGEST_SOCKET);
        let express: Vec<PathBuf> = express_paths(Path::new("/run/c0.sock")).collect();
        let names = [0, 1, 2, 64].map(|at| express[at].to_str().unwrap());
        assert_eq!(names, ["express", "peer0", "peer1", "peer63"].map(|name| format!("/run/c0.sock.{name}")));
        assert_eq!(express.len(), 65);
        let longest = card_path(&longest).unwrap();
        for beside in express_paths(&longest).chain([snoop_path(&longest)]) {
            assert!(beside.as_os_str().len() <= LONGEST_SOCKET);
        }
        assert!(card_path(&"x".repeat(99)).unwrap_err().contains("99 bytes (limit 98)"));
    }

    #[test]
    fn a_labs_directory_is_left_over_once_nobody_claims_it() {
        let dir = tempfile::tempdir().unwrap();
        let lab = dir.path().join("lab-x");
        fs::create_dir(&lab).unwrap();
        let (first, second) = (claim(&lab).unwrap(), claim(&lab).unwrap());
        assert!(!is_left_over(&lab));
        drop(first);
        assert!(!is_left_over(&lab));
        drop(second);
        assert!(is_left_over(&lab));
        // Only labs claim theirs.
        assert!(!is_left_over(dir.path()) && !is_left_over(&dir.path().join("lab-none")));
    }

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
