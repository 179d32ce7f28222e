//! `hamlyn console`

use std::io::{IsTerminal, Read, Write, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::rundir;

/// Ctrl-], as in telnet.
const LEAVE: u8 = 0x1d;

/// A signal that comes just before the wait is noticed after this long.
const LOOK_UP: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Attach this terminal to the console of a machine that hamlyn up started
///
/// Ctrl-] leaves the console; the machine goes on. One terminal at a time can be attached to a machine.
#[derive(Debug, Args)]
pub(super) struct ConsoleArgs {
    /// The machine: vm0, or with several hamlyn up at once DIRECTORY/vm0
    name: String,
}

pub(super) fn run(args: ConsoleArgs) -> anyhow::Result<()> {
    let socket = find(&args.name)?;
    let mut console =
        UnixStream::connect(&socket).with_context(|| format!("cannot connect to {}", socket.display()))?;
    if stdin().is_terminal() {
        writeln!(stderr(), "Connected to {}. Ctrl-] leaves; press Enter for a prompt.", args.name)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, stop.clone()).context("cannot catch signals")?;
    }
    let _restored_at_the_end = RawTerminal::enter()?;
    converse(&mut console, &stop)
}

fn find(name: &str) -> anyhow::Result<PathBuf> {
    let mut all = Vec::new();
    for dir in rundir::all()? {
        let lab = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for path in std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|ending| ending == "console") {
                let vm = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                all.push((vm, lab.clone(), path));
            }
        }
    }
    all.sort();
    let mut found = all.iter().filter(|(vm, lab, _)| name == vm || name == format!("{lab}/{vm}"));
    match (found.next(), found.next()) {
        (Some((_, _, path)), None) => Ok(path.clone()),
        (None, _) if all.is_empty() => bail!("no machine is running: start some with hamlyn up"),
        (first, _) => {
            let names: Vec<String> = all.iter().map(|(vm, lab, _)| format!("{lab}/{vm}")).collect();
            let why = if first.is_some() { "several machines have the name" } else { "there is no machine" };
            bail!("{why} {name:?}; running are: {}", names.join(", "))
        }
    }
}

/// Copies both ways until the machine or the person ends it.
fn converse(console: &mut UnixStream, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        let input = stdin();
        let mut ready =
            [PollFd::new(&input, PollFlags::IN), PollFd::from_borrowed_fd(console.as_fd(), PollFlags::IN)];
        match poll(&mut ready, Some(&LOOK_UP)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for input"),
        }
        let [typed, shown] = ready.map(|fd| !fd.revents().is_empty());
        if shown {
            let count = console.read(&mut buffer).context("the console is gone")?;
            if count == 0 {
                return Ok(());
            }
            let mut out = stdout().lock();
            out.write_all(&buffer[..count])?;
            out.flush()?;
        }
        if typed {
            // Not through std's buffer: what lies there, poll does not see.
            let count = rustix::io::read(stdin(), &mut buffer).context("cannot read standard input")?;
            let keys = &buffer[..count];
            let end = keys.iter().position(|&key| key == LEAVE);
            console.write_all(&keys[..end.unwrap_or(count)]).context("the console is gone")?;
            if count == 0 || end.is_some() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The terminal in raw mode, if it is one, until this is dropped.
struct RawTerminal(Option<Termios>);

impl RawTerminal {
    fn enter() -> anyhow::Result<RawTerminal> {
        if !stdin().is_terminal() {
            return Ok(RawTerminal(None));
        }
        let before = tcgetattr(stdin()).context("cannot read the terminal's mode")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).context("cannot set the terminal's mode")?;
        Ok(RawTerminal(Some(before)))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
            let _ = writeln!(stderr());
        }
    }
}
