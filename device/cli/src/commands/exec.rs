//! `hamlyn exec`

use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, bail};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::machines::find;
use hamlyn_lab::plain::{Filter, plain};
use hamlyn_lab::{Exit, Input, Program, Remote, What};

/// The exit status if the program could not be run or its machine is gone; as with ssh.
const NOT_RUN: u8 = 255;

/// After so many Ctrl-C the program is killed.
const ENOUGH: u32 = 3;

/// Run a program in a machine that hamlyn up started
///
/// It starts in the home of its user, and has this command's standard input, standard output and standard error. They are
/// bytes as they are, unless one of the outputs is a terminal: then what is not printable is shown as \x1b, so that a
/// machine cannot play with the terminal. Ctrl-C interrupts the program; the third kills it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn exec vm0 -- hamlyn-info
  hamlyn exec vm0 -- sh -c 'echo hello; exit 3'; echo $?
  tar -c data | hamlyn exec vm0 -- tar -x
  hamlyn exec --uid 1001 vm1 -- ping-pong serve")]
pub(super) struct ExecArgs {
    /// The user that it runs as: 0 is root, 1001 is user1, 1002 is user2
    #[arg(long, value_name = "N", default_value_t = 0)]
    uid: u32,
    /// It has no standard input; of use in a loop that reads its own
    #[arg(short = 'n', long)]
    no_input: bool,
    /// The machine: vm0, or with several hamlyn up at once DIRECTORY/vm0
    name: String,
    /// The program, found by the machine's PATH, and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(super) fn run(args: ExecArgs) -> ExitCode {
    match execute(args) {
        Ok(Exit::Code(code)) => ExitCode::from(code as u8),
        // As a shell says it.
        Ok(Exit::Signal(signal)) => ExitCode::from(128u8.wrapping_add(signal as u8)),
        Err(error) => {
            eprintln!("error: {}", plain(&format!("{error:#}")));
            ExitCode::from(NOT_RUN)
        }
    }
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
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).context("cannot catch signals")?;
    let mut remote = Remote::start(&machine.lab, &machine.name, program)?;
    let kill = remote.signals();
    thread::spawn(move || {
        let mut interrupts = 0;
        for signal in signals.forever() {
            interrupts += u32::from(signal == SIGINT);
            kill(if interrupts < ENOUGH { signal } else { signal_hook::consts::SIGKILL });
        }
    });
    if !args.no_input {
        let input = remote.input();
        // It ends with this process: no reader of a terminal can be woken otherwise.
        thread::spawn(move || feed(&input));
    }
    let (mut out, mut err) = (Shown::new(stdout()), Shown::new(stderr()));
    loop {
        match remote.word()? {
            What::OutBytes(bytes) => out.show(&bytes.0)?,
            What::ErrBytes(bytes) => err.show(&bytes.0)?,
            What::Exit(exit) => {
                out.finish()?;
                err.finish()?;
                return Ok(exit);
            }
            other => bail!("the machine's agent said {other:?}, which nobody asked for"),
        }
    }
}

/// Copies standard input to the program until one of them ends.
fn feed(input: &Input) {
    let mut bytes = vec![0; 32 << 10];
    loop {
        // Not through std's buffer: what is typed goes at once.
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
    /// For a terminal.
    filter: Option<Filter>,
}

impl<W: Write + IsTerminal> Shown<W> {
    fn new(output: W) -> Shown<W> {
        let filter = output.is_terminal().then(Filter::default);
        Shown { output, filter }
    }

    fn show(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.filter {
            None => self.output.write_all(bytes)?,
            Some(filter) => {
                let mut shown = String::new();
                filter.write(bytes, &mut shown);
                self.output.write_all(shown.as_bytes())?;
            }
        }
        Ok(self.output.flush()?)
    }

    fn finish(mut self) -> anyhow::Result<()> {
        if let Some(filter) = &mut self.filter {
            let mut shown = String::new();
            filter.finish(&mut shown);
            self.output.write_all(shown.as_bytes())?;
        }
        Ok(self.output.flush()?)
    }
}
