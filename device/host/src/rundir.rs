//! The run directory: a directory of this user alone, for the sockets of running processes.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use hamlyn_fabric::express::MOST_HOSTS;
use rustix::fs::{FlockOperation, flock};

/// Environment variable that sets the run directory. A lab sets it for each process it starts.
pub const VARIABLE: &str = "HAMLYN_RUN";

/// Maximum length of a UNIX socket's path in bytes.
const LONGEST_SOCKET: usize = 107;

/// Maximum length of the directory's path. The longest socket name is that of a socket for counters
/// (see [`crate::stat::socket`]).
const LONGEST: usize = LONGEST_SOCKET - "/fabric-4026531836-4194304.stat".len();

/// Suffix of the socket of a card's second function, after the card's path.
const DOORBELL: &str = ".doorbell";

/// Suffix of the socket for the plugin that reports the machine's stores. It is not longer than
/// [`DOORBELL`].
const SNOOP: &str = ".snoop";

/// Suffix of the socket of the function that has all of the card's express memory.
const EXPRESS: &str = ".express";

/// Suffix of the sockets of functions that each have the part shared with one other host. The host
/// id follows.
const PEER: &str = ".peer";

/// Returns the run directory and creates it if it is missing. It is `$HAMLYN_RUN`, else
/// `$XDG_RUNTIME_DIR/hamlyn` if `$XDG_RUNTIME_DIR` belongs to this user (after `su` it belongs to
/// another), else `/tmp/hamlyn-UID`.
///
/// A process that can write there can reach the cards' memory. So the directory must belong to this
/// user, with mode 0700.
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

/// Returns the run directory if it exists. Readers do not create it.
fn find() -> anyhow::Result<Option<PathBuf>> {
    let dir = path();
    has_room(&dir)?;
    match fs::symlink_metadata(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        _ => check(&dir)?,
    }
    Ok(Some(dir))
}

/// Fails if paths of sockets in this directory would be too long, or if the directory's path is not
/// UTF-8, which QEMU's command line needs.
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

/// Parses a socket's path from the command line.
pub fn socket_path(text: &str) -> Result<PathBuf, String> {
    path_of_at_most(LONGEST_SOCKET, text)
}

/// Parses the path of a card's socket, which leaves space for the suffix of its second function.
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

/// Returns the socket path of a card's second function.
pub fn doorbell_path(card: &Path) -> PathBuf {
    beside(card, DOORBELL)
}

/// Returns the path where a card listens for the plugin of its machine's QEMU.
pub fn snoop_path(card: &Path) -> PathBuf {
    beside(card, SNOOP)
}

/// Returns the socket path of the function that has the card's express memory, if it has any: all
/// of it, or the part shared with one other host.
pub fn express_path(card: &Path, peer: Option<u16>) -> PathBuf {
    match peer {
        None => beside(card, EXPRESS),
        Some(host) => beside(card, &format!("{PEER}{host}")),
    }
}

/// Returns all possible socket paths of such functions: first the one with all memory, then those
/// of the other hosts in order of their ids.
pub fn express_paths(card: &Path) -> impl Iterator<Item = PathBuf> {
    [None].into_iter().chain((0..MOST_HOSTS).map(Some)).map(|peer| express_path(card, peer))
}

fn beside(card: &Path, more: &str) -> PathBuf {
    let mut path = card.as_os_str().to_owned();
    path.push(more);
    path.into()
}

/// Returns the path of the run directory, whether or not it exists.
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

/// Returns the run directory, if it exists, and the directories of the labs in it.
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

/// Prefix of the names of labs' directories.
pub const LAB: &str = "lab-";

/// Prefix of the names of folders with the logs of ended labs.
pub const ENDED: &str = "ended-";

/// Returns the directory of the lab of this name in the run directory.
pub fn of_lab(top: &Path, name: &str) -> PathBuf {
    top.join(format!("{LAB}{name}"))
}

/// Returns the folder for the logs of an ended lab of this name.
pub fn ended(top: &Path, name: &str) -> PathBuf {
    top.join(format!("{ENDED}{name}"))
}

/// Locks a lab's directory while the file is open, to show that the lab still runs.
pub fn claim(dir: &Path) -> anyhow::Result<File> {
    let file = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
    flock(&file, FlockOperation::NonBlockingLockShared)
        .with_context(|| format!("cannot lock {}", dir.display()))?;
    Ok(file)
}

/// Whether no process claims a lab's directory: all processes of the lab ended before any could
/// remove it.
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
    fn lab_directory_is_left_over_once_unclaimed() {
        let dir = tempfile::tempdir().unwrap();
        let lab = dir.path().join("lab-x");
        fs::create_dir(&lab).unwrap();
        let (first, second) = (claim(&lab).unwrap(), claim(&lab).unwrap());
        assert!(!is_left_over(&lab));
        drop(first);
        assert!(!is_left_over(&lab));
        drop(second);
        assert!(is_left_over(&lab));
        // Only labs claim their directories.
        assert!(!is_left_over(dir.path()) && !is_left_over(&dir.path().join("lab-none")));
    }

    #[test]
    fn directory_accessible_to_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        check(dir.path()).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o750)).unwrap();
        let error = check(dir.path()).unwrap_err().to_string();
        assert!(error.contains("not mode 750"), "{error}");
    }
}
