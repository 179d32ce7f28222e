//! `hamlyn gdb`

use std::ffi::OsString;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use clap::Args;
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Debugger, Exit, Kit, MODULE, Program, Remote, What};

use super::machines::{Found, find};

/// Largest output of the program in the machine, in bytes.
const ALL: usize = 64 << 10;

/// Debug a machine's kernel and its driver with gdb, while it runs
///
/// Starts gdb at the machine, with the symbols of the driver where the machine has loaded it. The
/// machine stands still while gdb has it, and goes on once gdb has left. Its card's process goes
/// on: a long stop lets the card's handshake timer run out. Names of the kernel need its own
/// symbols and a fixed place of it: give gdb the file, and the machine the word nokaslr (hamlyn up
/// --append).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn gdb vm0
  hamlyn gdb vm0 -- -ex 'hbreak uln_selftest' -ex continue
  hamlyn gdb vm0 --kernel vmlinux        with the names of a kernel that was started with nokaslr
  hamlyn gdb vm0 --gdb gdb-multiarch")]
pub(super) struct GdbArgs {
    /// The machine: vm0, or DIRECTORY/vm0 if several labs are running
    name: String,
    /// File with the kernel's symbols
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// The debugger to start
    #[arg(long, value_name = "PROGRAM", default_value = "gdb")]
    gdb: PathBuf,
    /// More arguments for gdb
    #[arg(last = true, value_name = "ARGUMENTS")]
    more: Vec<OsString>,
}

pub(super) fn run(args: &GdbArgs) -> anyhow::Result<ExitCode> {
    let machine = find(&args.name)?;
    if let Some(kernel) = &args.kernel {
        ensure!(kernel.is_file(), "{} is not a file", kernel.display());
    }
    let module = Kit::find()?.module;
    let sections = sections(&machine)?;
    // From here on the machine can be debugged, until this is dropped.
    let debugger = Debugger::start(&machine.lab, &machine.name)?;
    let mut gdb = Command::new(&args.gdb);
    gdb.args(&args.kernel);
    if let Some(symbols) = symbols(&module, &sections) {
        gdb.args(["-ex", &symbols]);
    }
    gdb.args(["-ex", &format!("target remote {}", debugger.socket().display())]).args(&args.more);
    // Ctrl-C is gdb's: it stops the machine.
    signal_hook::flag::register(signal_hook::consts::SIGINT, Default::default())?;
    match gdb.status() {
        Ok(status) => Ok(ExitCode::from(status.code().unwrap_or(1) as u8)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{} is not installed: apt install gdb, or name another with --gdb", args.gdb.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot start {}", args.gdb.display())),
    }
}

/// Returns gdb's command for the symbols of a module whose sections lie there, if it is loaded.
fn symbols(module: &Path, sections: &[(String, String)]) -> Option<String> {
    let text = &sections.iter().find(|(name, _)| name == ".text")?.1;
    let mut command = format!("add-symbol-file {} {text}", module.display());
    for (name, address) in sections.iter().filter(|(name, _)| name != ".text") {
        // Writing to a string cannot fail.
        let _ = write!(command, " -s {name} {address}");
    }
    Some(command)
}

/// Returns the sections of the machine's driver with their addresses. None if it is not loaded.
fn sections(machine: &Found) -> anyhow::Result<Vec<(String, String)>> {
    let script = format!(
        "cd /sys/module/{MODULE}/sections 2>/dev/null || exit 0
         for section in .text .data .bss .rodata; do [ -e $section ] && echo $section $(cat $section); done; true"
    );
    let argv = vec!["sh".into(), "-c".into(), script.into()];
    let mut remote =
        Remote::start(&machine.lab, &machine.name, Program { argv, uid: Some(0), ..Program::default() })?;
    let mut said = Vec::new();
    loop {
        match remote.word()? {
            What::OutBytes(bytes) => said.extend_from_slice(&bytes.0),
            What::Exit(Exit::Code(0)) => break,
            What::Exit(_) => bail!("{}: the driver's sections cannot be read", machine.name),
            _ => {}
        }
        ensure!(said.len() <= ALL, "{} has printed more than {ALL} bytes", machine.name);
    }
    Ok(parse(&plain(&String::from_utf8_lossy(&said))))
}

/// Returns the sections that are listed with sound addresses.
fn parse(text: &str) -> Vec<(String, String)> {
    let section = |line: &str| {
        let (name, address) = line.split_once(' ')?;
        let digits = address.strip_prefix("0x")?;
        let is_sound = name.starts_with('.') && u64::from_str_radix(digits, 16).ok()? != 0;
        is_sound.then(|| (name.to_owned(), address.to_owned()))
    };
    text.lines().filter_map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_lie_where_the_module_was_loaded() {
        let sections =
            parse(".text 0xffffffffc0200000\n.data 0xffffffffc0210000\n.bss 0x0\nnonsense 0x1\n.rodata x\n");
        assert_eq!(
            symbols(Path::new("/m.ko"), &sections).unwrap(),
            "add-symbol-file /m.ko 0xffffffffc0200000 -s .data 0xffffffffc0210000"
        );
        assert_eq!(symbols(Path::new("/m.ko"), &parse("")), None);
    }
}
