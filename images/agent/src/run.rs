//! A running program: its process group, its input, and the threads that report its output and its
//! end.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getuid, kill_process_group, waitid};

use crate::lines::next_piece;
use crate::loader::Needs;
use crate::protocol::{Bytes, Exit, INPUT_QUEUE, MAX_OUTPUT, Program, What};

/// The file with the users' homes.
const USERS: &str = "/etc/passwd";

/// Number of bytes of a program that are inspected if it does not start.
const BEGINNING: u64 = 64 << 10;

/// The longest chain of interpreters that Linux starts for a program.
const INTERPRETERS: usize = 5;

/// Size of a piece of raw output, in bytes.
const PIECE: usize = 32 << 10;

/// Receives the events of a program, from several threads.
pub trait Tell: Clone + Send + 'static {
    /// Handles an event.
    fn tell(&self, what: What);
    /// Handles the program's death. It is not yet reaped, so its process id is still its own, and
    /// must be forgotten now.
    fn dead(&self);
    /// Handles the end of the program's output: the run can be forgotten.
    fn forget(&self);
}

/// A started program, until its end has been reported.
#[derive(Debug)]
pub struct Run {
    /// `None` once it is dead, because the process id may then be reused.
    group: Option<Pid>,
    input: Option<SyncSender<Vec<u8>>>,
    window: Arc<Window>,
}

impl Run {
    /// Starts `program`. `teller` receives all its events; the last one is its end.
    pub fn start(program: &Program, teller: impl Tell) -> anyhow::Result<Run> {
        let mut command = command(program)?;
        let mut child = command.spawn().map_err(|error| not_started(&command, error))?;
        let group = Pid::from_child(&child);
        let input = child.stdin.take().map(|stdin| {
            let (sender, receiver) = sync_channel(INPUT_QUEUE);
            let (teller, raw) = (teller.clone(), program.raw);
            thread::spawn(move || feed(stdin, receiver, raw.then_some(teller)));
            sender
        });
        let window = Arc::new(Window::new(program.window));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let say = || {
            let (teller, window) = (teller.clone(), window.clone());
            move |what: What| {
                window.wait_for(what.cost());
                teller.tell(what);
            }
        };
        let readers = if program.raw {
            [copy_bytes(out, What::OutBytes, say()), copy_bytes(err, What::ErrBytes, say())]
        } else {
            [copy_lines(out, What::Stdout, say()), copy_lines(err, What::Stderr, say())]
        };
        thread::spawn(move || {
            let status = wait(&mut child, &teller);
            for reader in readers {
                // A reader that panicked has already printed its message on the console.
                let _ = reader.join();
            }
            teller.forget();
            teller.tell(ended(status));
        });
        Ok(Run { group: Some(group), input, window })
    }

    /// Queues `text` for the program's standard input.
    pub fn write(&self, text: Vec<u8>) -> anyhow::Result<()> {
        let Some(input) = &self.input else { bail!("standard input is closed") };
        match input.try_send(text) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                bail!("the program has left {INPUT_QUEUE} pieces of its input unread")
            }
            Err(TrySendError::Disconnected(_)) => bail!("the program has closed its standard input"),
        }
    }

    /// Closes the program's standard input, after the queued pieces.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Records the program's death. Its last output has not been reported yet.
    pub fn dead(&mut self) {
        self.group = None;
        self.input = None;
    }

    /// Extends the window by `cost`, because the host has taken that much output.
    pub fn widen(&self, cost: usize) {
        self.window.widen(cost);
    }

    /// Sends signal number `signal` to the program and everything it started.
    pub fn kill(&self, signal: i32) -> anyhow::Result<()> {
        let Some(signal) = Signal::from_named_raw(signal) else { bail!("signal {signal} does not exist") };
        let Some(group) = self.group else { bail!("the program is dead") };
        kill_process_group(group, signal).context("cannot send the signal")
    }
}

/// Returns a user's name and home.
fn user(users: &str, uid: u32) -> Option<(&str, &str)> {
    let mut fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields.find_map(|fields| match fields[..] {
        [name, _, number, _, _, home, ..] if number.parse() == Ok(uid) => Some((name, home)),
        _ => None,
    })
}

/// Returns why a program did not start. "No such file" may mean that only its loader is missing.
fn not_started(command: &Command, error: io::Error) -> anyhow::Error {
    let context = format!("cannot start {:?}", command.get_program());
    if error.kind() != ErrorKind::NotFound {
        return anyhow!(error).context(context);
    }
    match found(command).and_then(|file| missing(&here(command), file)) {
        Some(needs) => anyhow!("{needs}").context(context),
        None => anyhow!(error).context(context),
    }
}

/// Returns what a program needs and is missing, or what its interpreter needs, and so on.
fn missing(here: &Path, mut file: PathBuf) -> Option<Needs> {
    for _ in 0..INTERPRETERS {
        let needs = Needs::of(&beginning(&file))?;
        file = here.join(needs.path());
        if !file.exists() {
            return Some(needs);
        }
    }
    None
}

/// Returns the directory that a command starts in.
fn here(command: &Command) -> PathBuf {
    command.get_current_dir().unwrap_or(Path::new(".")).to_owned()
}

/// Returns the file that a command starts, if it exists: at its own path, or in a directory of
/// `PATH`.
fn found(command: &Command) -> Option<PathBuf> {
    let program = Path::new(command.get_program());
    let here = here(command);
    if program.parent().is_some_and(|folder| !folder.as_os_str().is_empty()) {
        return Some(here.join(program));
    }
    let set = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, path)| path);
    let path = set.map(OsStr::to_owned).or_else(|| env::var_os("PATH")).unwrap_or_default();
    env::split_paths(&path).map(|folder| here.join(folder).join(program)).find(|file| file.is_file())
}

/// Returns the beginning of a file, which contains what the kernel reads. Empty if it cannot be
/// read.
fn beginning(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Opening a FIFO would wait for a writer.
    if file.is_file() {
        let _ = File::open(file).and_then(|file| file.take(BEGINNING).read_to_end(&mut bytes));
    }
    bytes
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
    if program.home {
        let users = fs::read_to_string(USERS).with_context(|| format!("cannot read {USERS}"))?;
        let uid = program.uid.unwrap_or_else(|| getuid().as_raw());
        let Some((name, home)) = user(&users, uid) else { bail!("no user of {USERS} has number {uid}") };
        command.env("USER", name).env("HOME", home).current_dir(home);
    }
    Ok(command)
}

/// The amount of output that a program may still send.
#[derive(Debug)]
struct Window {
    left: Mutex<Option<usize>>,
    wider: Condvar,
}

impl Window {
    fn new(left: Option<usize>) -> Window {
        Window { left: Mutex::new(left), wider: Condvar::new() }
    }

    /// Blocks until the window has room for `cost`, and takes it. Meanwhile the program blocks on
    /// its full pipe.
    fn wait_for(&self, cost: usize) {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let narrow = |left: &mut Option<usize>| left.is_some_and(|left| left < cost);
        let mut left = self.wider.wait_while(left, narrow).unwrap_or_else(PoisonError::into_inner);
        *left = left.map(|left| left.saturating_sub(cost));
    }

    fn widen(&self, cost: usize) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.map(|left| left.saturating_add(cost));
        self.wider.notify_all();
    }
}

/// Writes a program's input; `teller` gets an event for each piece written.
fn feed(mut stdin: ChildStdin, input: Receiver<Vec<u8>>, teller: Option<impl Tell>) {
    for piece in input {
        // The program no longer reads. Dropping the receiver reports that to the next writer.
        if stdin.write_all(&piece).is_err() {
            return;
        }
        if let Some(teller) = &teller {
            teller.tell(What::Took(piece.len()));
        }
    }
}

fn copy_lines(
    output: Option<impl Read + Send + 'static>,
    what: fn(String) -> What,
    tell: impl Fn(What) + Send + 'static,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let Some(output) = output else { return };
        let mut output = BufReader::new(output);
        while let Ok(Some(line)) = next_piece(&mut output, MAX_OUTPUT) {
            tell(what(String::from_utf8_lossy(&line.bytes).into_owned()));
        }
    })
}

fn copy_bytes(
    output: Option<impl Read + Send + 'static>,
    what: fn(Bytes) -> What,
    tell: impl Fn(What) + Send + 'static,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let Some(mut output) = output else { return };
        let mut bytes = vec![0; PIECE];
        loop {
            match output.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(count) => tell(what(Bytes(bytes[..count].to_vec()))),
            }
        }
    })
}

/// Waits for the end in two steps, so that no signal is ever sent to a reused process id.
fn wait(child: &mut Child, teller: &impl Tell) -> io::Result<ExitStatus> {
    while let Err(rustix::io::Errno::INTR) =
        waitid(WaitId::Pid(Pid::from_child(child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {}
    teller.dead();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_home() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken:x\nuser1:x:1001:1001:user1:/home/user1:/bin/sh\n";
        assert_eq!(user(users, 1001), Some(("user1", "/home/user1")));
        assert_eq!(user(users, 7), None);
    }
}
