//! A look at the host, without a change to it.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hamlyn_host::rundir;
use hamlyn_lab::{Accel, Kit, plugin};
use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use super::judge::{self, NoKvm, PREPARE};

/// Looks at all parts, in the order in which a lab needs them.
pub(super) fn look() -> Vec<Finding> {
    let kit = Kit::find();
    let mut all = vec![
        parts(&kit),
        qemu(kit.as_ref().ok()),
        judge::kvm(kvm()),
        judge::memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        disk(kit.as_ref().ok()),
        run_directory(),
    ];
    let run = existing(&rundir::path());
    all.extend(free(&run).map(|free| judge::run_room(&run.display().to_string(), free)));
    all.push(judge::descriptors(getrlimit(Resource::Nofile).maximum));
    all.push(judge::locked_memory(getrlimit(Resource::Memlock).current));
    all.push(leftovers());
    all.push(headers());
    all
}

/// Looks whether the kit has all its parts.
fn parts(kit: &anyhow::Result<Kit>) -> Finding {
    const PART: &str = "kit";
    let kit = match kit {
        Err(error) => {
            let what = format!("{error:#}").replace(&format!(": {PREPARE}"), "");
            return Finding::missing(PART, what, PREPARE);
        }
        Ok(kit) => kit,
    };
    let programs = ["hamlyn", "hamlyn-agent"].map(|name| kit.programs.join(name));
    let needed = programs.iter().chain([&kit.module]);
    let absent: Vec<String> =
        needed.filter(|part| !part.is_file()).map(|part| part.display().to_string()).collect();
    if !absent.is_empty() {
        return Finding::missing(PART, format!("without {}", absent.join(", ")), PREPARE);
    }
    if kit.packages.as_ref().is_none_or(|maker| !maker.is_file()) {
        return Finding::warning(PART, "without images/packages: no Debian packages in machines", PREPARE);
    }
    if plugin().is_none() {
        let what = "without the plugin by which an emulated machine's card sees its stores";
        return Finding::warning(PART, what, PREPARE);
    }
    Finding::ok(PART, format!("whole: {}", kit.initrd.parent().unwrap_or(&kit.initrd).display()))
}

/// Asks the kit's QEMU, or the host's.
fn qemu(kit: Option<&Kit>) -> Finding {
    let program = kit.map_or_else(|| PathBuf::from("qemu-system-x86_64"), |kit| kit.qemu.clone());
    let say = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    match say(&["--version"]).zip(say(&["-device", "help"])) {
        Some((version, devices)) => judge::qemu(&version, &devices),
        None => Finding::missing("qemu", format!("cannot start {}", program.display()), PREPARE),
    }
}

fn kvm() -> Result<(), (NoKvm, String)> {
    let device = Path::new("/dev/kvm");
    Accel::Kvm.decide().map(drop).map_err(|error| {
        let reason = match access(device, Access::READ_OK | Access::WRITE_OK) {
            Ok(()) => NoKvm::Other,
            Err(_) if device.exists() => NoKvm::Denied,
            Err(_) => NoKvm::Absent,
        };
        (reason, error.root_cause().to_string())
    })
}

/// Looks at the room where the kit is, or where it would be made.
fn disk(kit: Option<&Kit>) -> Finding {
    let folder = kit.map(|kit| kit.programs.clone()).or_else(|| std::env::current_dir().ok());
    let folder = folder.and_then(|folder| folder.canonicalize().ok()).unwrap_or_else(|| PathBuf::from("/"));
    match free(&folder) {
        Some(free) => judge::disk(&folder.display().to_string(), free, kit.is_some()),
        None => Finding::warning("disk", format!("cannot look at {}", folder.display()), "look by hand"),
    }
}

/// Returns the free room of a folder's file system for this user, in MiB.
fn free(folder: &Path) -> Option<u64> {
    let found = statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize) >> 20)
}

/// Returns the folder, or the nearest one above it that exists.
fn existing(folder: &Path) -> PathBuf {
    folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// Looks whether labs can make their directories.
fn run_directory() -> Finding {
    const PART: &str = "run directory";
    let (path, next) = (rundir::path(), "set HAMLYN_RUN to a directory of this user alone");
    if let Err(error) = rundir::all() {
        return Finding::missing(PART, format!("{error:#}"), next);
    }
    let near = existing(&path);
    match access(&near, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok(PART, path.display().to_string()),
        Err(error) => Finding::missing(PART, format!("cannot write to {}: {error}", near.display()), next),
    }
}

fn leftovers() -> Finding {
    let all = rundir::all().unwrap_or_default();
    let (dead, alive): (Vec<_>, Vec<_>) = all.into_iter().partition(|dir| rundir::is_left_over(dir));
    let name = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix(rundir::LAB).map(str::to_owned).unwrap_or(name)
    };
    let files = alive.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    let sockets = files.map(|file| file.path()).filter(|file| is_dead_socket(file));
    let sockets: Vec<String> = sockets.map(|socket| socket.display().to_string()).collect();
    judge::leftovers(&dead.iter().map(name).collect::<Vec<_>>(), &sockets, &orphans())
}

/// Returns whether a file is a socket at which no process listens. Sockets that QEMU uses for
/// datagrams refuse any connection, and are in use.
fn is_dead_socket(file: &Path) -> bool {
    let is_socket = fs::symlink_metadata(file).is_ok_and(|found| found.file_type().is_socket());
    let refused = || {
        UnixStream::connect(file).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    is_socket && refused()
}

/// Returns the processes of this user whose lab's directory is gone or left over.
fn orphans() -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of = |process: PathBuf| {
        let environment = fs::read(process.join("environ")).ok()?;
        let prefix = format!("{}=", rundir::VARIABLE);
        let lab =
            environment.split(|byte| *byte == 0).find_map(|word| word.strip_prefix(prefix.as_bytes()))?;
        let lab = PathBuf::from(std::str::from_utf8(lab).ok()?);
        let is_lab = lab.file_name()?.to_str()?.starts_with(rundir::LAB);
        let is_gone = !lab.exists() || rundir::is_left_over(&lab);
        let name = fs::read_to_string(process.join("comm")).ok()?;
        (is_lab && is_gone)
            .then(|| format!("{} {}", process.file_name().unwrap_or_default().to_string_lossy(), name.trim()))
    };
    entries.filter_map(|entry| of(entry.path())).collect()
}

fn headers() -> Finding {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let are_there = Path::new("/lib/modules").join(&kernel).join("build/Makefile").exists();
    judge::headers(&kernel, are_there)
}
