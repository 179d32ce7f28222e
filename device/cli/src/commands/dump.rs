//! `hamlyn dump`

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use hamlyn_lab::{Dump, DumpFormat};
use rustix::fs::fstatvfs;

use super::lab::stay::stop_by_signals;
use super::machines::find;
use super::tell;

/// What a dump has beside the machine's memory, at most: its firmware, notes and headers.
const BESIDE: u64 = 16 << 20;

/// Write a machine's memory into a file, for drgn or crash
///
/// The file has the memory and the registers of the processors, like the dump of a real machine.
/// It does not matter whether the machine's kernel hangs or has panicked. The machine stands still
/// until all is written. Its card's process goes on: a long stop lets the card's handshake timer
/// run out.
///
/// Only the user can read the file: it holds whatever the machine's programs have in memory.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn dump vm0 -w vm0.dump
  hamlyn dump vm0 -w vm0.dump --compress     a tenth of the size or less, in the form of kdump
  ./scripts/drgn vm0.dump                    opens it, if the machine has the debug kernel")]
pub(super) struct DumpArgs {
    /// The machine: vm0, or DIRECTORY/vm0 if several labs are running
    name: String,
    /// File to write; it must not exist
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    file: PathBuf,
    /// Write kdump's compressed form and not ELF
    #[arg(long)]
    compress: bool,
}

pub(super) fn run(args: &DumpArgs) -> anyhow::Result<()> {
    let machine = find(&args.name)?;
    let dump = Dump::of(&machine.lab, &machine.name)?;
    let stop = stop_by_signals()?;
    let file = create(&args.file)?;
    let written = write(args, dump, &file, &stop);
    if written.is_err() {
        // A part of a dump would be taken for the whole.
        let _ = fs::remove_file(&args.file);
    }
    written
}

fn write(args: &DumpArgs, dump: Dump, file: &File, stop: &AtomicBool) -> anyhow::Result<()> {
    let format = if args.compress { DumpFormat::Compressed } else { DumpFormat::Elf };
    if format == DumpFormat::Elf {
        let found = fstatvfs(file).with_context(|| format!("cannot look at {}", args.file.display()))?;
        check_room(&args.file, found.f_bavail.saturating_mul(found.f_frsize), dump.memory())?;
    }
    dump.write(file, format, &|| stop.load(Ordering::Relaxed))?;
    let length = file.metadata().with_context(|| format!("cannot look at {}", args.file.display()))?.len();
    tell(&format!("{length} bytes in {}", args.file.display()));
    Ok(())
}

/// Makes the file, readable only by this user.
fn create(path: &Path) -> anyhow::Result<File> {
    let made = File::options().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| refusal(path, error))
}

/// Returns why a file cannot be made, and what to do.
fn refusal(path: &Path, error: io::Error) -> anyhow::Error {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (error.kind(), folder) {
        (ErrorKind::AlreadyExists, _) => {
            anyhow!("{} exists: remove it, or name another file", path.display())
        }
        (ErrorKind::NotFound, Some(folder)) if !folder.exists() => {
            anyhow!("cannot write {}: the folder {} is missing", path.display(), folder.display())
        }
        _ => anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
    }
}

/// Fails if a file system has less room than a dump of this memory needs.
fn check_room(path: &Path, free: u64, memory: u64) -> anyhow::Result<()> {
    let need = memory.saturating_add(BESIDE);
    ensure!(
        free >= need,
        "cannot write {}: its file system has {} MiB free, and the dump needs {} MiB (--compress takes less)",
        path.display(),
        free >> 20,
        need >> 20
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_files_are_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (file, below) = (folder.path().join("f"), folder.path().join("no/f"));
        create(&file).unwrap();
        let error = |path: &Path| format!("{:#}", create(path).unwrap_err());
        assert_eq!(error(&file), format!("{} exists: remove it, or name another file", file.display()));
        let missing = format!("the folder {} is missing", folder.path().join("no").display());
        assert_eq!(error(&below), format!("cannot write {}: {missing}", below.display()));
        assert!(error(&file.join("f")).contains("Not a directory"));
    }

    #[test]
    fn room_for_all_of_the_memory_is_required() {
        let path = Path::new("d");
        check_room(path, 528 << 20, 512 << 20).unwrap();
        let error = check_room(path, (528 << 20) - 1, 512 << 20).unwrap_err().to_string();
        let said = "cannot write d: its file system has 527 MiB free, and the dump needs 528 MiB";
        assert!(error.starts_with(said), "{error}");
    }
}
