//! `hamlyn console`

use std::io::{IsTerminal, Read, Write, stderr, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::machines::find;
use hamlyn_lab::plain::Filter;

/// Ctrl-], as in telnet.
const LEAVE: u8 = 0x1d;

/// Time-out of a wait: a signal that arrives just before the wait is noticed after this time.
const LOOK_UP: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Attach this terminal to the console of a machine that hamlyn up started
///
/// Ctrl-] leaves the console; the machine continues. Only one terminal at a time can be attached to
/// a machine.
///
/// The machine's output reaches the terminal unchanged, as with ssh or virsh console, so that
/// programs can draw on the screen. A machine that you do not trust can do the same. With --plain,
/// unprintable bytes are shown like \x1b, as in logs and messages.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn console vm0             a shell in the machine, as root; Ctrl-] leaves it
  hamlyn console --plain vm1     the same for a machine that you do not trust")]
pub(super) struct ConsoleArgs {
    /// The machine: vm0, or DIRECTORY/vm0 if several hamlyn up are running
    name: String,
    /// Escape unprintable bytes instead of sending them to the terminal
    #[arg(long)]
    plain: bool,
}

pub(super) fn run(args: ConsoleArgs) -> anyhow::Result<()> {
    let socket = find(&args.name)?.console;
    let mut console = UnixStream::connect(&socket).with_context(|| {
        format!("cannot connect to {} (Cloud Hypervisor's machines have none: hamlyn exec)", socket.display())
    })?;
    if stdin().is_terminal() {
        writeln!(stderr(), "Connected to {}. Ctrl-] leaves; press Enter for a prompt.", args.name)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, stop.clone()).context("cannot catch signals")?;
    }
    let _restored_at_the_end = RawTerminal::enter()?;
    let filter = args.plain.then(Filter::default);
    converse(&mut console, filter, &stop)
}

/// Copies both ways until the machine or the user ends it.
fn converse(console: &mut UnixStream, mut filter: Option<Filter>, stop: &AtomicBool) -> anyhow::Result<()> {
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
            match &mut filter {
                None => out.write_all(&buffer[..count])?,
                Some(filter) => {
                    let mut shown = String::new();
                    filter.write(&buffer[..count], &mut shown);
                    // The terminal is raw: a line feed does not return the carriage.
                    out.write_all(shown.replace('\n', "\r\n").as_bytes())?;
                }
            }
            out.flush()?;
        }
        if typed {
            // Bypasses std's buffer, whose contents poll does not report.
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

/// The terminal, in raw mode until this is dropped. `None` if standard input is not a terminal.
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
