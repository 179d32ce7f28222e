//! One running program: its process group, its input, and the threads that tell of its output and
//! its end.

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

/// Who has which home.
const USERS: &str = "/etc/passwd";

/// How much of a program is looked at if it does not start, in bytes.
const BEGINNING: u64 = 64 << 10;

/// How many programs Linux starts one for the other, at most.
const INTERPRETERS: usize = 5;

/// A piece of raw output, in bytes.
const PIECE: usize = 32 << 10;

/// Receives what happens to a program, from several threads.
pub trait Tell: Clone + Send + 'static {
    /// Something happened.
    fn tell(&self, what: What);
    /// The program is dead but not yet reaped, so its process id is still its own: forget that.
    fn dead(&self);
    /// All that the program said has been told: forget it.
    fn forget(&self);
}

/// A program that has been started, until its end has been told.
#[derive(Debug)]
pub struct Run {
    /// None once it is dead: then the number may be another's.
    group: Option<Pid>,
    input: Option<SyncSender<Vec<u8>>>,
    window: Arc<Window>,
}

impl Run {
    /// Starts `program`; `teller` hears of all it does, last of its end.
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
                // A reader that panicked has already told its story on the console.
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

    /// Closes the program's standard input, after what is queued.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// The program is dead: its last words are still to be told.
    pub fn dead(&mut self) {
        self.group = None;
        self.input = None;
    }

    /// The host has taken so much of what the program said.
    pub fn widen(&self, cost: usize) {
        self.window.widen(cost);
    }

    /// Sends signal number `signal` to the program and all it started.
    pub fn kill(&self, signal: i32) -> anyhow::Result<()> {
        let Some(signal) = Signal::from_named_raw(signal) else { bail!("signal {signal} does not exist") };
        let Some(group) = self.group else { bail!("the program is dead") };
        kill_process_group(group, signal).context("cannot send the signal")
    }
}

/// The name and the home of a user.
fn user(users: &str, uid: u32) -> Option<(&str, &str)> {
    let mut fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields.find_map(|fields| match fields[..] {
        [name, _, number, _, _, home, ..] if number.parse() == Ok(uid) => Some((name, home)),
        _ => None,
    })
}

/// Why a program did not start. "No such file" may mean that it is there, and its loader is not.
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

/// What a program needs and is not there; or what its interpreter needs, and so on.
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

/// The folder that a command starts in.
fn here(command: &Command) -> PathBuf {
    command.get_current_dir().unwrap_or(Path::new(".")).to_owned()
}

/// The file that a command starts, if there is one: of its own path, or below a folder of `PATH`.
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

/// The beginning of a file, in which linkers put what the kernel reads; nothing if it cannot be
/// read.
fn beginning(file: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A FIFO would wait for a writer.
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

/// What a program may still say.
#[derive(Debug)]
struct Window {
    left: Mutex<Option<usize>>,
    wider: Condvar,
}

impl Window {
    fn new(left: Option<usize>) -> Window {
        Window { left: Mutex::new(left), wider: Condvar::new() }
    }

    /// Waits until this much may be said, and takes it. Meanwhile the program waits with its pipe
    /// full.
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

/// Hands a program its input; `teller` hears of each piece that it was handed.
fn feed(mut stdin: ChildStdin, input: Receiver<Vec<u8>>, teller: Option<impl Tell>) {
    for piece in input {
        // The program no longer reads: dropping the receiver tells the next writer.
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

/// Waits for the end in two steps, so that no signal can ever go to a reused process id.
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
