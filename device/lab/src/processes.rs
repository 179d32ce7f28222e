//! Child processes that never outlive their parent.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, bail};
use hamlyn_host::rundir;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, getpriority_process, kill_process,
    set_parent_process_death_signal, setpriority_process, waitid,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

use super::kit::Kit;
use super::log::{Haste, Log};
use super::name::Name;

/// How long a process may take from closing its sockets to its end.
const CLOSING: Duration = Duration::from_secs(2);

/// A running child. Dropping it kills and reaps it.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    logs: Vec<Log>,
}

/// Destination of a child's output.
pub(super) enum Words<'a> {
    /// All output to one log. The child serves others, and does not wait for the log.
    One(&'a Path),
    /// Standard output and standard error to separate logs. The child waits for them.
    Two(&'a Path, &'a Path),
}

impl Words<'_> {
    /// Creates the logs, and the descriptors that the child writes to.
    fn logs(&self) -> anyhow::Result<(Vec<Log>, OwnedFd, OwnedFd)> {
        let make = |path: &Path, haste| {
            Log::make(path, haste).with_context(|| format!("cannot make the log {}", path.display()))
        };
        match self {
            Words::One(path) => {
                let (log, output) = make(path, Haste::Loses)?;
                let errors = output.try_clone().context("cannot share the log")?;
                Ok((vec![log], output, errors))
            }
            Words::Two(path, other) => {
                let (log, output) = make(path, Haste::Waits)?;
                let (other, errors) = make(other, Haste::Waits)?;
                Ok((vec![log, other], output, errors))
            }
        }
    }
}

impl Process {
    /// Starts `program`, which dies with this process. Its output goes to `words`, and its run
    /// directory is `run`. If there is a `core`, the program is pinned to it.
    ///
    /// The child gets its own process group, so that Ctrl-C reaches only the parent, which shuts
    /// everything down in order.
    pub(super) fn start(
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
        words: Words<'_>,
        run: &Path,
        core: Option<u16>,
    ) -> anyhow::Result<Process> {
        let (logs, output, errors) = words.logs()?;
        let mut command = Command::new(hamlyn()?);
        command.arg("tether").arg(std::process::id().to_string());
        command.args(core.map(|core| format!("--core={core}"))).arg("--").arg(program);
        command.args(arguments.into_iter().map(Into::into));
        command.env(rundir::VARIABLE, run).process_group(0);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = spawn(command).with_context(|| format!("cannot start {name}"))?;
        Ok(Process { name: name.to_owned(), child, logs })
    }

    /// Returns its name for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lowers the scheduling priority of the process, and of what it starts from now on.
    pub(super) fn give_way(&self) -> io::Result<()> {
        let nice = getpriority_process(None)? + NICE;
        // This sets one thread's priority: each thread has its own.
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let thread = thread?.file_name().to_str().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
            // An error means that the thread has ended meanwhile.
            let _ = setpriority_process(thread, nice);
        }
        Ok(())
    }

    /// Returns how it ended, if it has. Its last output is then in its logs.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        self.logs.iter().for_each(Log::finish);
        Some(status)
    }

    /// Returns a function that returns how the process ended. Call that function after the process
    /// has closed its sockets; it waits a moment for the end. It returns `None` if the process
    /// continues, or if it was ended and reaped on purpose.
    pub(super) fn fate(&self) -> impl FnOnce() -> Option<String> + Send + use<> {
        let (name, pid) = (self.name.clone(), self.child.id());
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        move || {
            let pid = Pid::from_raw(pid.try_into().ok()?)?;
            let deadline = Instant::now() + CLOSING;
            loop {
                if let Some(status) = waitid(WaitId::Pid(pid), look).ok()? {
                    return match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => Some(format!("{name} exited with status {code}")),
                        (None, signal) => signal.map(|signal| format!("{name} was ended by signal {signal}")),
                    };
                }
                if Instant::now() > deadline {
                    return None;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Returns a function that tells whether the process has ended.
    pub(super) fn watch(&self) -> impl Fn() -> bool + Send + use<> {
        let pid = Pid::from_raw(self.child.id() as i32);
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that it has been reaped.
        move || !pid.is_some_and(|pid| waitid(WaitId::Pid(pid), look).is_ok_and(|status| status.is_none()))
    }

    /// Kills and reaps it.
    pub(super) fn kill(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A stopped child. Dropping this lets it continue.
#[derive(Debug)]
#[must_use]
pub struct Held {
    pid: Pid,
}

impl Held {
    pub(super) fn stop(process: &Process) -> anyhow::Result<Held> {
        let pid = Pid::from_raw(process.pid() as i32).context("a process without an id")?;
        kill_process(pid, Signal::STOP).with_context(|| format!("cannot stop {}", process.name()))?;
        Ok(Held { pid })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have been killed meanwhile.
        let _ = kill_process(self.pid, Signal::CONT);
    }
}

/// Starts a child from a thread that lives as long as this process.
///
/// The kernel sends the death signal when the *thread* that created the child ends, not the
/// process.
fn spawn(command: Command) -> io::Result<Child> {
    type Job = (Command, Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        thread::spawn(move || {
            for (mut command, reply) in jobs {
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let gone = || io::Error::other("the thread that starts processes is gone");
    let (reply, child) = channel();
    let sent = spawner.lock().unwrap_or_else(PoisonError::into_inner).send((command, reply));
    sent.map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

/// Niceness added to a machine that gives way. A card's thread on the same core, which is busy half
/// of the time, then never has to wait for its share of the core.
const NICE: i32 = 10;

/// Implements `hamlyn tether PARENT -- PROGRAM...`: becomes `program`, which is killed as soon as
/// `parent` is gone. If there is a `core`, the program is pinned to it.
pub fn tether(parent: u32, core: Option<u16>, program: &[OsString]) -> anyhow::Result<()> {
    let Some((name, arguments)) = program.split_first() else { bail!("there is no program to start") };
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot ask for the death signal")?;
    if getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()) != Some(parent) {
        bail!("the parent, process {parent}, is already gone");
    }
    if let Some(core) = core {
        let mut cores = CpuSet::new();
        cores.set(core.into());
        sched_setaffinity(None, &cores).with_context(|| format!("cannot be on core {core}"))?;
    }
    let error = Command::new(name).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", name.to_string_lossy()))
}

/// Returns the first `most` or fewer of the cores that this process and its children may use.
pub fn cores(most: usize) -> Vec<u16> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).map(|core| core as u16).take(most).collect()
}

/// A lab's directory. It is removed when this is dropped, and also when this process is killed.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Marks the lab as running: commands such as `hamlyn exec` skip directories of dead labs.
    _claim: File,
    /// Waits for the end of its standard input, which comes when this process ends in any way.
    keeper: Child,
    pipe: Option<ChildStdin>,
}

impl Directory {
    /// Creates a directory in the run directory. A named lab's directory has its name, and its logs
    /// are kept when the lab ends.
    pub(super) fn make(name: Option<&Name>) -> anyhow::Result<Directory> {
        let program = hamlyn()?;
        let top = rundir::open()?;
        let directory = tempfile::Builder::new()
            .prefix(rundir::LAB)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&top)
            .with_context(|| format!("cannot make a directory in {}", top.display()))?;
        rundir::has_room(directory.path())?;
        let _claim = rundir::claim(directory.path())?;
        let path = match name {
            None => directory.keep(),
            Some(name) => named(directory, &rundir::of_lab(&top, name.as_str()))?,
        };
        let mut command = Command::new(program);
        command.arg("keeper").arg(&path).process_group(0);
        command.args(name.map(|name| rundir::ended(&top, name.as_str())));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = command.spawn().context("cannot start the directory's keeper");
        let mut keeper = keeper.inspect_err(|_| drop(fs::remove_dir(&path)))?;
        let pipe = keeper.stdin.take();
        Ok(Directory { path, _claim, keeper, pipe })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Gives a directory the name of its lab. It is claimed already, so that it never looks left over.
fn named(directory: TempDir, path: &Path) -> anyhow::Result<PathBuf> {
    rundir::has_room(path)?;
    match renameat_with(CWD, directory.path(), CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => {
            // The temporary name is free again.
            let _ = directory.keep();
            Ok(path.to_owned())
        }
        Err(Errno::EXIST) if rundir::is_left_over(path) => {
            bail!("{} is left over from a lab that was killed: hamlyn lab down removes it", path.display())
        }
        Err(Errno::EXIST) => bail!("a lab with the directory {} runs already", path.display()),
        Err(error) => Err(error).with_context(|| format!("cannot make {}", path.display())),
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.keeper.wait();
    }
}

/// Implements `hamlyn keeper DIRECTORY [LOGS]`: removes a lab's directory at the end of standard
/// input. Its logs become the only contents of the folder `logs`, if that is given.
pub fn keep(directory: &Path, logs: Option<&Path>) -> anyhow::Result<()> {
    for (folder, prefix) in [(Some(directory), rundir::LAB), (logs, rundir::ENDED)] {
        let Some(folder) = folder else { continue };
        if !folder.file_name().unwrap_or_default().to_string_lossy().starts_with(prefix) {
            bail!("{} is not a lab's directory", folder.display());
        }
    }
    // A signal to the whole group or session must not leave the directory behind. Only the pipe
    // ends this process.
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, Default::default()).context("cannot catch signals")?;
    }
    io::stdin().read_to_end(&mut Vec::new()).context("cannot wait for the parent's end")?;
    if let Some(logs) = logs {
        // If they cannot be kept, the directory is removed nevertheless.
        let _ = move_logs(directory, logs);
    }
    // The parent's other children die at the same moment: one may still be creating a file.
    for _ in 0..20 {
        if fs::remove_dir_all(directory).is_ok() || !directory.exists() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))
}

/// Moves the logs of a lab's directory to a folder, and removes what was there.
fn move_logs(directory: &Path, logs: &Path) -> io::Result<()> {
    // An error means that it is not there.
    let _ = fs::remove_dir_all(logs);
    DirBuilder::new().mode(0o700).create(logs)?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.extension().is_some_and(|ending| ending == "log"), path.file_name())
        {
            fs::rename(&path, logs.join(name))?;
        }
    }
    Ok(())
}

/// Returns the `hamlyn` program: this one, or the kit's for tests. `$HAMLYN_BIN` overrides it.
pub fn hamlyn() -> anyhow::Result<PathBuf> {
    if let Some(program) = env::var_os("HAMLYN_BIN") {
        return Ok(program.into());
    }
    let this = env::current_exe().context("cannot find this program's own file")?;
    if this.file_name().is_some_and(|name| name == "hamlyn") {
        return Ok(this);
    }
    Kit::find()?.program("hamlyn")
}
