//! `hamlyn cp`

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, bail};
use clap::Args;

use super::machines::find;
use hamlyn_lab::{Exit, Input, Program, Remote, What};

/// In the machine: takes standard input into a file, which is there whole or not at all.
const TAKE: &str = r#"
to=$1
if [ -d "$to" ]; then to=${to%/}/$2; fi
cat >"$to.part$$" && chmod "$3" "$to.part$$" && mv "$to.part$$" "$to" || { rm -f "$to.part$$"; exit 1; }"#;

/// The most that is kept of what a machine complains of, in bytes.
const COMPLAINT: usize = 4096;

/// Copy a file into a machine that hamlyn up started, or out of it
///
/// One of the two names a machine, a colon and a path there: vm0:/tmp/data. A path that does not begin with a slash is below
/// the user's home; without one that is the home itself. Who copies into a folder keeps the file's name. A file that may be
/// executed may be so there, too. Nothing is there by half: what is copied gets its name when it is whole.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn cp target/x86_64-unknown-linux-musl/release/hello vm0:
  hamlyn exec vm0 -- ./hello
  hamlyn cp vm0:/var/log/results.json .")]
pub(super) struct CpArgs {
    /// The user whose files they are there: 0 is root, 1001 is user1, 1002 is user2
    #[arg(long, value_name = "N", default_value_t = 0)]
    uid: u32,
    /// A file here, or MACHINE:PATH
    from: String,
    /// A file or folder here, or MACHINE:[PATH]
    to: String,
}

pub(super) fn run(args: CpArgs) -> anyhow::Result<()> {
    match (there(&args.from), there(&args.to)) {
        (None, Some((machine, path))) => put(Path::new(&args.from), machine, path, args.uid),
        (Some((machine, path)), None) => get(machine, path, Path::new(&args.to), args.uid),
        (None, None) => {
            bail!("neither {} nor {} is in a machine, as vm0:{} would be", args.from, args.to, args.to)
        }
        (Some(_), Some(_)) => bail!("both are in machines: copy to this one between"),
    }
}

/// The machine and the path there, unless it is a file here: that has no colon, or a slash before it.
fn there(name: &str) -> Option<(&str, &str)> {
    let (machine, path) = name.split_once(':')?;
    // A lab's name may stand before the machine's; a folder of this machine begins with a dot or a slash.
    let here = machine.is_empty() || machine.starts_with(['.', '/']);
    (!here).then_some((machine, path))
}

fn put(from: &Path, machine: &str, to: &str, uid: u32) -> anyhow::Result<()> {
    let mut file = File::open(from).with_context(|| format!("cannot open {}", from.display()))?;
    let found = file.metadata().with_context(|| format!("cannot look at {}", from.display()))?;
    if found.is_dir() {
        bail!("{} is a folder: tar -c {0} | hamlyn exec {machine} -- tar -x", from.display());
    }
    let name = from.file_name().and_then(|name| name.to_str()).context("the file has no name of text")?;
    let mode = format!("{:o}", found.mode() & 0o777);
    let to = if to.is_empty() { "." } else { to };
    let mut remote = start(machine, &["sh", "-c", TAKE, "sh", to, name, &mode], true, uid)?;
    let input = remote.input();
    let path = from.to_owned();
    let reading = thread::spawn(move || {
        let sent = send(&mut file, &input).with_context(|| format!("cannot read {}", path.display()));
        if sent.is_err() {
            // What has come by then is no file.
            input.hang_up();
        }
        sent
    });
    let heard = hear(&mut remote, |_| Ok(()));
    drop(remote);
    match reading.join() {
        Ok(Err(error)) => Err(error),
        _ => heard.with_context(|| format!("cannot copy {} to {machine}", from.display())),
    }
}

fn send(file: &mut File, input: &Input) -> std::io::Result<()> {
    let mut bytes = vec![0; 32 << 10];
    loop {
        let count = file.read(&mut bytes)?;
        if count == 0 {
            input.close();
            return Ok(());
        }
        if !input.write(&bytes[..count]) {
            // Why, the machine says.
            return Ok(());
        }
    }
}

fn get(machine: &str, from: &str, to: &Path, uid: u32) -> anyhow::Result<()> {
    let name = Path::new(from).file_name().with_context(|| format!("{machine}:{from} names no file"))?;
    let to: PathBuf = if to.is_dir() { to.join(name) } else { to.to_owned() };
    let folder = match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mode = mode_of(machine, from, uid)?;
    let partial = tempfile::Builder::new().permissions(Permissions::from_mode(mode)).tempfile_in(folder);
    let mut partial = partial.with_context(|| format!("cannot make a file in {}", folder.display()))?;
    let mut remote = start(machine, &["cat", from], false, uid)?;
    hear(&mut remote, |bytes| {
        partial.write_all(bytes).with_context(|| format!("cannot write to {}", folder.display()))
    })
    .with_context(|| format!("cannot copy {machine}:{from}"))?;
    partial.persist(&to).with_context(|| format!("cannot make {}", to.display()))?;
    Ok(())
}

/// Whether a file may be executed decides its mode here, under this process's mask.
fn mode_of(machine: &str, path: &str, uid: u32) -> anyhow::Result<u32> {
    let mut remote =
        start(machine, &["sh", "-c", r#"if [ -x "$1" ]; then echo x; fi"#, "sh", path], false, uid)?;
    let mut said: Vec<u8> = Vec::new();
    hear(&mut remote, |bytes| {
        said.extend(bytes.iter().take(COMPLAINT));
        Ok(())
    })?;
    Ok(if said.is_empty() { 0o666 } else { 0o777 })
}

fn start(name: &str, command: &[&str], stdin: bool, uid: u32) -> anyhow::Result<Remote> {
    let machine = find(name)?;
    let argv = command.iter().map(|&word| word.to_owned()).collect();
    let program = Program { argv, uid: Some(uid), home: true, stdin, ..Program::default() };
    Remote::start(&machine.lab, &machine.name, program)
}

/// Hears a program out, which must succeed; `take` has what it says.
fn hear(remote: &mut Remote, mut take: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut complaint = Vec::new();
    loop {
        match remote.word()? {
            What::OutBytes(bytes) => take(&bytes.0)?,
            What::ErrBytes(bytes) => {
                complaint.extend(bytes.0.iter().take(COMPLAINT - complaint.len().min(COMPLAINT)));
            }
            What::Exit(Exit::Code(0)) => return Ok(()),
            What::Exit(exit) if complaint.is_empty() => bail!("{exit}"),
            What::Exit(_) => bail!("{}", String::from_utf8_lossy(&complaint).trim_end()),
            _ => bail!("the machine's agent said what nobody asked for"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_from_a_file() {
        assert_eq!(there("vm0:"), Some(("vm0", "")));
        assert_eq!(there("lab-x/vm0:/tmp/a:b"), Some(("lab-x/vm0", "/tmp/a:b")));
        for file in ["vm0", "./vm0:x", "/a:b", ":x"] {
            assert_eq!(there(file), None, "{file}");
        }
    }
}
