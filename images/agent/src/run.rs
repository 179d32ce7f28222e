//! One running program: its process group, its input, and the threads that tell of its output and its end.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::lines::next_piece;
use crate::protocol::{Exit, MAX_OUTPUT, Program, What};

/// Pieces of input that wait for a program which does not read: then the host hears of it.
const INPUT_QUEUE: usize = 64;

/// Receives what happens to a program, from several threads.
pub trait Tell: Clone + Send + 'static {
    /// Something happened.
    fn tell(&self, what: What);
    /// The program is dead but not yet reaped, so its process id is still its own: forget it.
    fn forget(&self);
}

/// A program that has been started and not yet reaped.
#[derive(Debug)]
pub struct Run {
    group: Pid,
    input: Option<SyncSender<String>>,
}

impl Run {
    /// Starts `program`; `teller` hears of all it does, last of its end.
    pub fn start(program: &Program, teller: impl Tell) -> anyhow::Result<Run> {
        let mut child =
            command(program)?.spawn().with_context(|| format!("cannot start {:?}", program.argv[0]))?;
        let group = Pid::from_child(&child);
        let input = child.stdin.take().map(|stdin| {
            let (sender, receiver) = sync_channel(INPUT_QUEUE);
            thread::spawn(move || feed(stdin, receiver));
            sender
        });
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let readers = [
            thread::spawn({
                let teller = teller.clone();
                move || copy_lines(out, |line| teller.tell(What::Stdout(line)))
            }),
            thread::spawn({
                let teller = teller.clone();
                move || copy_lines(err, |line| teller.tell(What::Stderr(line)))
            }),
        ];
        thread::spawn(move || {
            let status = wait(&mut child, &teller);
            for reader in readers {
                // A reader that panicked has already told its story on the console.
                let _ = reader.join();
            }
            teller.tell(ended(status));
        });
        Ok(Run { group, input })
    }

    /// Queues `text` for the program's standard input.
    pub fn write(&self, text: String) -> anyhow::Result<()> {
        let Some(input) = &self.input else { bail!("standard input is closed") };
        match input.try_send(text) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                bail!("the program has left {INPUT_QUEUE} pieces of its input unread")
            }
            Err(TrySendError::Disconnected(_)) => bail!("the program has closed its standard input"),
        }
    }

    /// Closes the program's standard input, after what is queued.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Sends signal number `signal` to the program and all it started.
    pub fn kill(&self, signal: i32) -> anyhow::Result<()> {
        let Some(signal) = Signal::from_named_raw(signal) else { bail!("signal {signal} does not exist") };
        kill_process_group(self.group, signal).context("cannot send the signal")
    }
}

fn command(program: &Program) -> anyhow::Result<Command> {
    let Some(name) = program.argv.first() else { bail!("argv is empty") };
    let mut command = Command::new(name);
    command.args(&program.argv[1..]).envs(&program.env).process_group(0);
    command.stdin(if program.stdin { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(uid) = program.uid {
        command.uid(uid).gid(uid);
    }
    Ok(command)
}

fn feed(mut stdin: ChildStdin, input: Receiver<String>) {
    for text in input {
        // The program no longer reads: dropping the receiver tells the next writer.
        if stdin.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn copy_lines(output: Option<impl Read>, mut tell: impl FnMut(String)) {
    let Some(output) = output else { return };
    let mut output = BufReader::new(output);
    while let Ok(Some(line)) = next_piece(&mut output, MAX_OUTPUT) {
        tell(String::from_utf8_lossy(&line.bytes).into_owned());
    }
}

/// Waits for the end in two steps, so that no signal can ever go to a reused process id.
fn wait(child: &mut Child, teller: &impl Tell) -> io::Result<ExitStatus> {
    while let Err(rustix::io::Errno::INTR) =
        waitid(WaitId::Pid(Pid::from_child(child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {}
    teller.forget();
    child.wait()
}

fn ended(status: io::Result<ExitStatus>) -> What {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => What::Exit(Exit::Code(code)),
            (None, Some(signal)) => What::Exit(Exit::Signal(signal)),
            (None, None) => What::Error(format!("the program ended in an unknown way: {status}")),
        },
        Err(error) => What::Error(format!("cannot wait for the program: {error}")),
    }
}
