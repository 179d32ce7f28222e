//! `hamlyn dump`: of a machine that runs, and of one whose kernel has panicked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, hamlyn};

use crate::{eventually, lab};

/// Least memory of a machine, in bytes: some kernels get more.
const MEMORY: u64 = 384 << 20;

/// Dumps the memory of vm0 into a file, with options.
fn dump(lab: &Lab, file: &Path, options: &[&str]) -> Result<Output> {
    let mut command = Command::new(hamlyn()?);
    command.args(["dump", "vm0", "-w"]).arg(file).args(options).env("HAMLYN_RUN", lab.directory());
    Ok(command.output()?)
}

/// Returns what the private root's readelf prints of a file.
fn readelf(file: &Path) -> Result<String> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let cache = std::env::var_os("HAMLYN_CACHE").map_or(repository.join(".hamlyn"), PathBuf::from);
    let root = cache.join("root/usr");
    let mut command = Command::new(root.join("lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(root.join("lib/x86_64-linux-gnu")).arg(root.join("bin/readelf"));
    let output = command.args(["--wide", "--file-header", "--segments", "--notes"]).arg(file).output()?;
    ensure!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the total size of the memory in a dump, in bytes.
fn size_of_memory(elf: &str) -> Result<u64> {
    let sizes = elf.lines().filter(|line| line.trim_start().starts_with("LOAD ")).map(|line| {
        let size = line.split_whitespace().nth(4).and_then(|word| word.strip_prefix("0x"));
        u64::from_str_radix(size.context("no size")?, 16).with_context(|| line.to_owned())
    });
    sizes.sum()
}

fn contains(file: &Path, text: &str) -> Result<bool> {
    let bytes = fs::read(file)?;
    Ok(bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

#[test]
fn dump_has_notes_and_all_memory() -> Result<()> {
    let mut lab = lab(1);
    lab.open_door()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("vm0.dump");
    // The text as a whole is in the memory of the machine only.
    lab.vm(0).run_as(0, ["sh", "-c", "echo \"in $((40 + 2))$((6 * 7)) pages\" >/tmp/text"])?.finish_text()?;
    let output = dump(&lab, &file, &[])?;
    ensure!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let length = fs::metadata(&file)?.len();
    ensure!(said.contains(&format!("{length} bytes in {}", file.display())), "{said}");
    ensure!(fs::metadata(&file)?.permissions().mode() & 0o777 == 0o600);
    let elf = readelf(&file)?;
    ensure!(elf.contains("CORE (Core file)"), "{elf}");
    for owner in ["CORE", "QEMU"] {
        let is_note = |line: &str| line.split_whitespace().next() == Some(owner);
        ensure!(elf.lines().any(is_note), "no note of {owner}: {elf}");
    }
    let size = size_of_memory(&elf)?;
    ensure!((MEMORY..=length).contains(&size), "{size} bytes of memory in {length}: {elf}");
    ensure!(contains(&file, "in 4242 pages\n")?);
    // The machine has gone on.
    lab.vm(0).run_as(0, ["self-test"])?.finish_text()?;

    let smaller = folder.path().join("compressed");
    let output = dump(&lab, &smaller, &["--compress"])?;
    ensure!(output.status.success(), "{output:?}");
    let header = fs::read(&smaller)?.into_iter().take(4096).collect::<Vec<_>>();
    ensure!(header.starts_with(b"KDUMP   ") && header[272..].starts_with(b"x86_64\0"), "{header:?}");
    ensure!(fs::metadata(&smaller)?.len() < length / 2);

    // The first dump is kept.
    let output = dump(&lab, &file, &[])?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1) && said.contains("exists: remove it"), "{output:?}");
    ensure!(fs::metadata(&file)?.len() == length);
    Ok(())
}

#[test]
fn memory_of_a_panicked_machine_is_dumped() -> Result<()> {
    let lab = lab(1);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("vm0.dump");
    let panic = "echo 0 >/proc/sys/kernel/panic; echo c >/proc/sysrq-trigger";
    let _run = lab.vm(0).run_as(0, ["sh", "-c", panic])?;
    let log = lab.directory().join("vm0.log");
    eventually(|| contains(&log, "end Kernel panic"), "the kernel panics")?;
    let output = dump(&lab, &file, &[])?;
    ensure!(output.status.success(), "{output:?}");
    ensure!(size_of_memory(&readelf(&file)?)? >= MEMORY);
    // The kernel's program has the text without its reason.
    ensure!(contains(&file, "Kernel panic - not syncing: sysrq triggered crash")?);
    Ok(())
}
