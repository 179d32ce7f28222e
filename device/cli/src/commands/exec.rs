//! `hamlyn exec`

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdin, stdout};
use std::process::{ExitCode, exit};
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context, bail};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::machines::find;
use hamlyn_lab::plain::{Filter, plain};
use hamlyn_lab::{Exit, Input, Program, Remote, What};

/// Exit status if the program could not be run or its machine is gone, as with ssh.
const NOT_RUN: u8 = 255;

/// After this many signals the program is killed, and this command exits without waiting for it.
const ENOUGH: usize = 3;

/// Run a program in a machine that hamlyn up started
///
/// The program starts in its user's home directory, and uses this command's standard input,
/// standard output and standard error. Bytes pass unchanged, unless an output is a terminal. There,
/// unprintable bytes are shown like \x1b, so that a machine cannot control the terminal. The
/// program gets the signals that this command gets (SIGINT by Ctrl-C, SIGTERM, SIGHUP, SIGQUIT).
/// The third signal kills it and ends this command at once. If an output is closed, this command
/// ends as by SIGPIPE (status 141), and the program with it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn exec vm0 -- hamlyn-info
  hamlyn exec vm0 -- sh -c 'echo hello; exit 3'; echo $?
  tar -c data | hamlyn exec vm0 -- tar -x
  hamlyn exec --uid 1001 vm1 -- ping-pong serve")]
pub(super) struct ExecArgs {
    /// User that runs the program: 0 is root, 1001 is user1, 1002 is user2
    #[arg(long, value_name = "N", default_value_t = 0)]
    uid: u32,
    /// Give the program no standard input; useful in a loop that reads its own
    #[arg(short = 'n', long)]
    no_input: bool,
    /// The machine: vm0, or DIRECTORY/vm0 if several hamlyn up are running
    name: String,
    /// The program, looked up in the machine's PATH, and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(super) fn run(args: ExecArgs) -> ExitCode {
    match execute(args) {
        Ok(Exit::Code(code)) => ExitCode::from(code as u8),
        // The status that a shell reports.
        Ok(Exit::Signal(signal)) => ExitCode::from(status_of(signal) as u8),
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(stderr(), "error: {}", plain(&format!("{error:#}")));
            ExitCode::from(NOT_RUN)
        }
    }
}

/// Returns the exit status that a shell reports for a signal.
fn status_of(signal: i32) -> i32 {
    128 + (signal & 0x7f)
}

fn execute(args: ExecArgs) -> anyhow::Result<Exit> {
    let machine = find(&args.name)?;
    let program = Program {
        argv: args.command,
        uid: Some(args.uid),
        home: true,
        stdin: !args.no_input,
        ..Program::default()
    };
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).context("cannot catch signals")?;
    let mut remote = Remote::start(&machine.lab, &machine.name, program)?;
    pass_on(signals, remote.signals());
    if !args.no_input {
        let input = remote.input();
        // This thread ends with the process: a reader of a terminal cannot be woken otherwise.
        thread::spawn(move || feed(&input));
    }
    let (mut out, mut err) = (Shown::new(stdout()), Shown::new(stderr()));
    loop {
        let shown = match remote.word()? {
            What::OutBytes(bytes) => out.show(&bytes.0),
            What::ErrBytes(bytes) => err.show(&bytes.0),
            What::Exit(exit) => match out.finish().and_then(|()| err.finish()) {
                Ok(()) => return Ok(exit),
                Err(error) => Err(error),
            },
            other => bail!("the machine's agent sent an unexpected answer: {other:?}"),
        };
        match shown {
            Ok(()) => {}
            // A program on this host would be ended by this signal.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Signal(SIGPIPE)),
            Err(error) => return Err(error).context("cannot write what the program says"),
        }
    }
}

/// Passes signals on to the program. The last one ends this process without waiting for the program
/// or its machine: the program may be in a call that no signal ends. The lab kills the program when
/// this process is gone.
fn pass_on(mut signals: Signals, kill: impl Fn(i32) + Send + 'static) {
    let (tell, told) = channel();
    // A machine that reads nothing blocks this thread.
    thread::spawn(move || told.into_iter().for_each(kill));
    thread::spawn(move || {
        for (before, signal) in signals.forever().enumerate() {
            if before + 1 == ENOUGH {
                exit(status_of(SIGKILL));
            }
            let _ = tell.send(signal);
        }
    });
}

/// Copies standard input to the program until one of them ends.
fn feed(input: &Input) {
    let mut bytes = vec![0; 32 << 10];
    loop {
        // Bypasses std's buffer, so that typed input is sent at once.
        match rustix::io::read(stdin(), &mut bytes) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => return input.close(),
            Ok(count) if !input.write(&bytes[..count]) => return,
            Ok(_) => {}
        }
    }
}

/// One of the outputs.
struct Shown<W> {
    output: W,
    /// Set if the output is a terminal.
    filter: Option<Filter>,
}

impl<W: Write + IsTerminal> Shown<W> {
    fn new(output: W) -> Shown<W> {
        let filter = output.is_terminal().then(Filter::default);
        Shown { output, filter }
    }

    fn show(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.filter {
            None => self.output.write_all(bytes)?,
            Some(filter) => {
                let mut shown = String::new();
                filter.write(bytes, &mut shown);
                self.output.write_all(shown.as_bytes())?;
            }
        }
        self.output.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(filter) = &mut self.filter {
            let mut shown = String::new();
            filter.finish(&mut shown);
            self.output.write_all(shown.as_bytes())?;
        }
        self.output.flush()
    }
}
