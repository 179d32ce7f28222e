//! `hamlyn cp`

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context, anyhow, bail};
use clap::Args;

use super::machines::find;
use super::tell;
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Exit, Input, Needs, Program, Remote, What};

/// Script in the machine: opens a file like cp, and copies standard input into it. An existing file
/// keeps its inode and its mode. A new file gets the mode of the source, less the umask. Writes to
/// standard error if the loader that the file needs is missing.
const TAKE: &str = r#"
if [ "$4" ] && [ ! -e "$4" ]; then echo missing >&2; fi
to=$1
if [ -d "$to" ]; then to=${to%/}/$2; fi
new=
if [ ! -e "$to" ]; then
    new=$(printf %o $((0777 & 0$3 & ~0$(umask))))
    umask "$(printf %o $((0777 & ~0$new)))"
fi
exec >"$to" || exit
if [ "$new" ]; then chmod "$new" /proc/self/fd/1 || exit; fi
exec cat"#;

/// Script in the machine: copies standard input to a file with a mode.
const PLACE: &str = r#"mkdir -p "$(dirname "$1")" && cat >"$1" && chmod "$2" "$1""#;

/// Script in the machine: writes a line with the mode of a file, and then its contents. There is no
/// line if the file cannot be opened.
const GIVE: &str = r#"
if [ -d "$1" ]; then echo "$1 is a directory: copy it with tar" >&2; exit 1; fi
exec <"$1" || exit
stat -L -c %a /proc/self/fd/0 && exec cat"#;

/// Longest line with a mode, in bytes: 07777 and the line feed.
const MODE_LINE: usize = 6;

/// Bytes at the start of a program that are searched for its loader: linkers put it there.
const BEGINNING: usize = 64 << 10;

/// Largest part of the machine's standard error that is kept, in bytes.
const COMPLAINT: usize = 4096;

/// Copy a file into a machine that hamlyn up started, or out of it
///
/// One of the two names is a machine, a colon and a path there: vm0:/tmp/data. A path that does not
/// begin with a slash is relative to the user's home; an empty path is the home itself. Write a
/// file of this host whose name has a colon as ./a:b, and one that begins with a dash as ./-a.
///
/// Like cp, it writes into an existing target: it follows a link, writes to a device or FIFO, and
/// keeps a file's inode, owner and mode. A new file gets the mode of the source, less the umask. In
/// a directory the copy has the source's name. A copy that fails or is interrupted leaves what has
/// been written so far.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn cp target/x86_64-unknown-linux-musl/release/hello vm0:
  hamlyn exec vm0 -- ./hello
  hamlyn cp vm0:/var/log/results.json .")]
pub(super) struct CpArgs {
    /// User that accesses the files there: 0 is root, 1001 is user1, 1002 is user2
    #[arg(long, value_name = "N", default_value_t = 0)]
    uid: u32,
    /// A file here, or MACHINE:PATH
    from: OsString,
    /// A file or directory here, or MACHINE:[PATH]
    to: OsString,
}

pub(super) fn run(args: CpArgs) -> anyhow::Result<()> {
    let (from, to) = (Path::new(&args.from), Path::new(&args.to));
    match (there(&args.from), there(&args.to)) {
        (None, Some((machine, path))) => put(from, machine, path, args.uid),
        (Some((machine, path)), None) => get(machine, path, to, args.uid),
        (None, None) => {
            bail!("neither {} nor {} is in a machine, as vm0:{1} would be", from.display(), to.display())
        }
        (Some(_), Some(_)) => bail!("both are in machines: copy to this one between"),
    }
}

/// Returns the machine and the path there. Returns `None` for a file of this host: its name has no
/// colon, or a dot or slash at the start.
fn there(name: &OsStr) -> Option<(&str, &OsStr)> {
    let colon = name.as_bytes().iter().position(|byte| *byte == b':')?;
    let (machine, path) = name.as_bytes().split_at(colon);
    // The names of machines are text.
    let machine = std::str::from_utf8(machine).ok()?;
    // A lab's name may precede the machine's. A folder of this host begins with a dot or a slash.
    let here = machine.is_empty() || machine.starts_with(['.', '/']);
    (!here).then_some((machine, OsStr::from_bytes(&path[1..])))
}

fn put(from: &Path, machine: &str, to: &OsStr, uid: u32) -> anyhow::Result<()> {
    let file = File::open(from).with_context(|| format!("cannot open {}", from.display()))?;
    let found = file.metadata().with_context(|| format!("cannot look at {}", from.display()))?;
    if found.is_dir() {
        bail!("{} is a directory: tar -c {0} | hamlyn exec {machine} -- tar -x", from.display());
    }
    let name = from.file_name().with_context(|| format!("{} names no file", from.display()))?;
    let mode = format!("{:o}", found.mode() & 0o777);
    let to = if to.is_empty() { OsStr::new(".") } else { to };
    let needs = if found.is_file() && found.mode() & 0o111 != 0 { needs(&file) } else { None };
    let loader = needs.as_ref().map_or(OsStr::new(""), |needs| needs.path().as_os_str());
    let words = [TAKE.as_ref(), "sh".as_ref(), to, name, mode.as_ref(), loader];
    let mut remote = start(machine, &words, true, uid)?;
    let said = pour(file, from, &mut remote, machine)?;
    if let Some(needs) = needs.filter(|_| !said.is_empty()) {
        tell(&plain(&format!("{} is copied, but will not start in {machine}: {needs}", from.display())));
    }
    Ok(())
}

/// Copies a file of this host to a path in a machine of the lab in this directory, as root. Makes
/// missing folders. The copy has the mode of the file unless another is given.
pub(super) fn place(
    from: &Path,
    lab: &Path,
    machine: &str,
    to: &str,
    mode: Option<u32>,
) -> anyhow::Result<()> {
    let file = File::open(from).with_context(|| format!("cannot open {}", from.display()))?;
    let own = file.metadata().with_context(|| format!("cannot look at {}", from.display()))?.mode();
    let mode = format!("{:o}", mode.unwrap_or(own & 0o777));
    let argv = ["sh", "-c", PLACE, "sh", to, &mode].map(OsString::from).to_vec();
    let program = Program { argv, uid: Some(0), stdin: true, ..Program::default() };
    let mut remote = Remote::start(lab, machine, program)?;
    pour(file, from, &mut remote, machine).map(drop)
}

/// Sends a file to a program's standard input, and waits for the program's end, which must be a
/// success. Returns what it wrote to standard error.
fn pour(mut file: File, from: &Path, remote: &mut Remote, machine: &str) -> anyhow::Result<Vec<u8>> {
    let input = remote.input();
    let (failing, failed) = channel();
    // This thread ends with the process: a thread that reads a pipe or a terminal cannot be woken.
    thread::spawn(move || {
        if let Err(error) = send(&mut file, &input) {
            let _ = failing.send(error);
            // The machine must not accept a partial file as the whole one.
            input.hang_up();
        }
    });
    hear(remote, |_| Ok(())).map_err(|error| match failed.try_recv() {
        Ok(unread) => anyhow!(unread).context(format!("cannot read {}", from.display())),
        Err(_) => error.context(format!("cannot copy {} to {machine}", from.display())),
    })
}

/// Returns what a program needs to start.
fn needs(file: &File) -> Option<Needs> {
    let mut bytes = vec![0; BEGINNING];
    // This does not move the file's position.
    let length = file.read_at(&mut bytes, 0).ok()?;
    Needs::of(&bytes[..length])
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
            // The machine reports the reason.
            return Ok(());
        }
    }
}

fn get(machine: &str, from: &OsStr, to: &Path, uid: u32) -> anyhow::Result<()> {
    let source = format!("{machine}:{}", from.to_string_lossy());
    let name = Path::new(from).file_name().with_context(|| format!("{source} names no file"))?;
    let to: PathBuf = if to.is_dir() { to.join(name) } else { to.to_owned() };
    let mut remote = start(machine, &[GIVE.as_ref(), "sh".as_ref(), from], false, uid)?;
    let (mut line, mut file) = (Vec::new(), None);
    let mut is_closed = false;
    let heard = hear(&mut remote, |mut bytes| {
        if file.is_none() {
            let Some(mode) = mode_line(&mut line, &mut bytes)? else { return Ok(()) };
            file = Some(open(&to, mode).with_context(|| format!("cannot open {}", to.display()))?);
        }
        let Some(file) = &mut file else { return Ok(()) };
        let written = file.write_all(bytes);
        is_closed = written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        written.with_context(|| format!("cannot write to {}", to.display()))
    });
    if is_closed {
        // The reader of a pipe has closed it. That is not an error, as for standard output of other
        // commands.
        return Err(io::Error::from(ErrorKind::BrokenPipe).into());
    }
    heard.with_context(|| format!("cannot copy {source}"))?;
    if file.is_none() {
        bail!("cannot copy {source}: the machine did not say its mode");
    }
    Ok(())
}

/// Takes the line with the mode from the start of the input. Returns `None` while it is incomplete.
fn mode_line(line: &mut Vec<u8>, bytes: &mut &[u8]) -> anyhow::Result<Option<u32>> {
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        if *byte == b'\n' {
            let mode = std::str::from_utf8(line).ok().and_then(|mode| u32::from_str_radix(mode, 8).ok());
            return Ok(Some(mode.context("the machine says a mode that is not a number")? & 0o777));
        }
        line.push(*byte);
        if line.len() == MODE_LINE {
            bail!("the machine says a mode that is too long (limit {} digits)", MODE_LINE - 1);
        }
    }
    Ok(None)
}

/// Opens an existing file as it is, or creates a new one with this mode less the umask.
fn open(to: &Path, mode: u32) -> std::io::Result<File> {
    match OpenOptions::new().write(true).truncate(true).open(to) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(to)
        }
        other => other,
    }
}

/// Starts a shell with these words after -c.
fn start(name: &str, words: &[&OsStr], stdin: bool, uid: u32) -> anyhow::Result<Remote> {
    let machine = find(name)?;
    let argv = ["sh", "-c"].into_iter().map(OsStr::new).chain(words.iter().copied());
    let argv = argv.map(OsStr::to_owned).collect();
    let program = Program { argv, uid: Some(uid), home: true, stdin, ..Program::default() };
    Remote::start(&machine.lab, &machine.name, program)
}

/// Reads a program's output until it ends, which must be a success. Passes standard output to
/// `take`, and returns what the program wrote to standard error.
fn hear(remote: &mut Remote, mut take: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<Vec<u8>> {
    let mut complaint = Vec::new();
    loop {
        match remote.word()? {
            What::OutBytes(bytes) => take(&bytes.0)?,
            What::ErrBytes(bytes) => {
                complaint.extend(bytes.0.iter().take(COMPLAINT - complaint.len().min(COMPLAINT)));
            }
            What::Exit(Exit::Code(0)) => return Ok(complaint),
            What::Exit(exit) if complaint.is_empty() => bail!("{exit}"),
            What::Exit(_) => bail!("{}", String::from_utf8_lossy(&complaint).trim_end()),
            _ => bail!("the machine's agent sent an unexpected answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_names_differ_from_file_names() {
        let there = |name| {
            let (machine, path) = super::there(OsStr::new(name))?;
            Some((machine, path.to_str().unwrap()))
        };
        assert_eq!(there("vm0:"), Some(("vm0", "")));
        assert_eq!(there("lab-x/vm0:/tmp/a:b"), Some(("lab-x/vm0", "/tmp/a:b")));
        for file in ["vm0", "./vm0:x", "/a:b", ":x"] {
            assert_eq!(there(file), None, "{file}");
        }
        assert_eq!(super::there(OsStr::from_bytes(b"\xff:x")), None);
        let path = OsStr::from_bytes(b"vm0:\xff");
        assert_eq!(super::there(path), Some(("vm0", OsStr::from_bytes(b"\xff"))));
    }

    #[test]
    fn mode_may_arrive_in_pieces() {
        let mut line = Vec::new();
        assert_eq!(mode_line(&mut line, &mut &b"75"[..]).unwrap(), None);
        let mut rest = &b"5\nabc"[..];
        assert_eq!(mode_line(&mut line, &mut rest).unwrap(), Some(0o755));
        assert_eq!(rest, b"abc");
        for wrong in [&b"\n"[..], b"8\n", b"1234567"] {
            assert!(mode_line(&mut Vec::new(), &mut &*wrong).is_err());
        }
    }
}
