//! The lab's door for other processes of its owner. `hamlyn exec` and `hamlyn cp` use it to reach
//! the agents, each of which serves only one host.
//!
//! A client first names the machine, and then uses the agent's own protocol for one program:
//! [`Hello`], a `run`, and the messages that belong to it. The client must extend the program's
//! window itself, so the memory kept for a client that does not read is bounded.

use std::io::{BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, bail};
use hamlyn_agent::lines::next_line;
use hamlyn_agent::protocol::{Event, MAX_REQUEST, Request, Verb, What};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::agent::{Agent, Answers};

/// Largest number of programs run through a lab's door at once.
const MOST: usize = 64;

/// How long to wait for a client that has connected and sends nothing.
const SILENCE: Duration = Duration::from_secs(10);

/// How long an agent may take to become ready.
const BOOT: Duration = Duration::from_secs(60);

/// Delay before the next attempt when this process has no free file descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// The first line of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The machine's name.
    pub(super) machine: String,
}

/// Weak reference to a machine's agent, valid while the machine runs.
pub(super) type Speaks = Arc<Mutex<Weak<Agent>>>;

/// An open door. Dropping it stops accepting clients.
#[derive(Debug)]
pub(super) struct Door {
    listener: Arc<UnixListener>,
}

/// A door to agents that this process reaches by streams, for a lab without machines of its own.
#[derive(Debug)]
pub struct Doorway {
    _door: Door,
    _agents: Vec<Arc<Agent>>,
}

impl Doorway {
    /// Opens the door of the lab in this directory. Each machine has a name and the stream to its
    /// agent.
    pub fn open(lab: &Path, machines: Vec<(String, UnixStream)>) -> anyhow::Result<Doorway> {
        let (mut agents, mut doors) = (Vec::new(), Vec::new());
        for (name, stream) in machines {
            let agent = Arc::new(Agent::new(&name, stream, || None)?);
            agent.wait_for_boot(0, BOOT)?;
            doors.push((name, Arc::new(Mutex::new(Arc::downgrade(&agent)))));
            agents.push(agent);
        }
        Ok(Doorway { _door: Door::open(lab, doors)?, _agents: agents })
    }
}

/// Returns the door's socket in a lab's directory.
pub(super) fn path(lab: &Path) -> PathBuf {
    lab.join("door")
}

/// Returns the process that runs the lab in this directory. It has a door once all has started.
pub fn owner(lab: &Path) -> anyhow::Result<Pid> {
    let path = path(lab);
    let stream = UnixStream::connect(&path).with_context(|| {
        format!("cannot connect to {}: the lab may be starting or ending", path.display())
    })?;
    let peer = hamlyn_door::credentials(&stream).context("cannot ask for the lab's process")?;
    let process = peer.process.and_then(Pid::from_raw);
    process
        .with_context(|| format!("the lab of {} runs in another PID namespace: end it there", lab.display()))
}

impl Door {
    /// Opens the door of the lab in this directory to these machines.
    pub(super) fn open(lab: &Path, machines: Vec<(String, Speaks)>) -> anyhow::Result<Door> {
        let path = path(lab);
        let listener =
            UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
        let listener = Arc::new(listener);
        let door = Door { listener: listener.clone() };
        let (machines, guests) = (Arc::new(machines), Arc::<AtomicUsize>::default());
        thread::spawn(move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => enter(stream, machines.clone(), guests.clone()),
                    Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                        return;
                    }
                    Err(_) => sleep(PAUSE),
                }
            }
        });
        Ok(door)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Wakes the accepting thread.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

/// Serves one client on its own thread.
fn enter(mut stream: UnixStream, machines: Arc<Vec<(String, Speaks)>>, guests: Arc<AtomicUsize>) {
    let many = guests.fetch_add(1, Ordering::Relaxed) >= MOST;
    thread::spawn(move || {
        let served = if many {
            Err(anyhow::anyhow!("{MOST} programs are run through this door already (limit {MOST})"))
        } else {
            serve(&mut stream, &machines)
        };
        if let Err(error) = served {
            // Fails if the client has left, and then it needs no reason.
            let _ = say(&mut stream, &Event { id: None, what: What::Error(format!("{error:#}")) });
        }
        let _ = stream.shutdown(Shutdown::Both);
        guests.fetch_sub(1, Ordering::Relaxed);
    });
}

fn serve(stream: &mut UnixStream, machines: &[(String, Speaks)]) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(SILENCE)).context("cannot set a time-out")?;
    let mut input = BufReader::new(stream.try_clone().context("cannot share the stream")?);
    let hello: Hello = heard(&mut input)?.context("nothing was asked for")?;
    let Some((_, speaks)) = machines.iter().find(|(name, _)| *name == hello.machine) else {
        bail!("machine {:?} is not in this lab", hello.machine)
    };
    let agent = speaks.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    let agent = agent.with_context(|| format!("{} is not running", hello.machine))?;
    let Some(Request { id: theirs, verb: Verb::Run(program) }) = heard(&mut input)? else {
        bail!("the request does not name a program to run")
    };
    stream.set_read_timeout(None).context("cannot set a time-out")?;
    let (id, answers) = agent.start(program)?;
    let listening = thread::spawn({
        let agent = agent.clone();
        move || {
            while let Ok(Some(Request { verb, .. })) = heard(&mut input) {
                if matches!(verb, Verb::Run(_) | Verb::Read(_)) || agent.tell(id, verb).is_err() {
                    break;
                }
            }
            // The client has left or sent something invalid. This does nothing if the program has
            // ended.
            agent.abandon(id);
        }
    });
    let told = tell_all(stream, theirs, &answers);
    let _ = stream.shutdown(Shutdown::Both);
    let _ = listening.join();
    told
}

/// Passes on all events of a program, up to its last.
fn tell_all(stream: &mut UnixStream, id: u64, answers: &Answers) -> anyhow::Result<()> {
    loop {
        let what = match answers.recv_timeout(Duration::MAX) {
            Ok(what) => what,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => What::Error("its machine ended or rebooted".into()),
        };
        let last = matches!(what, What::Exit(_) | What::Error(_));
        say(stream, &Event { id: Some(id), what })?;
        if last {
            return Ok(());
        }
    }
}

/// Sends a value as one line.
pub(super) fn say(stream: &mut UnixStream, what: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Ok(stream.write_all(&line)?)
}

/// Receives the next line. Returns `None` at the end.
fn heard<T: for<'a> Deserialize<'a>>(input: &mut BufReader<UnixStream>) -> anyhow::Result<Option<T>> {
    match next_line(input, MAX_REQUEST)? {
        None => Ok(None),
        Some(Err(_)) => bail!("the line is too long (limit {MAX_REQUEST} bytes)"),
        Some(Ok(line)) => Ok(Some(serde_json::from_slice(&line).context("the line makes no sense")?)),
    }
}

#[cfg(test)]
mod tests {
    use hamlyn_agent::protocol::{Exit, Program};

    use super::super::Remote;
    use super::*;

    struct Lab {
        dir: tempfile::TempDir,
        _agent: Arc<Agent>,
        _door: Door,
    }

    /// Creates a lab of one machine, whose agent is in this process.
    fn lab() -> Lab {
        let (host, guest) = UnixStream::pair().unwrap();
        let input = BufReader::new(guest.try_clone().unwrap());
        thread::spawn(move || hamlyn_agent::serve::serve(input, guest, "vm0").unwrap());
        let agent = Arc::new(Agent::new("vm0", host, || None).unwrap());
        agent.wait_for_boot(0, BOOT).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let speaks = Arc::new(Mutex::new(Arc::downgrade(&agent)));
        let off = Arc::new(Mutex::new(Weak::new()));
        let door = Door::open(dir.path(), vec![("vm0".into(), speaks), ("vm1".into(), off)]).unwrap();
        Lab { dir, _agent: agent, _door: door }
    }

    fn sh(script: &str) -> Program {
        Program { argv: ["sh", "-c", script].map(Into::into).to_vec(), stdin: true, ..Program::default() }
    }

    /// Returns all output of a program, and how it ends.
    fn hear_out(remote: &mut Remote) -> (Vec<u8>, Vec<u8>, anyhow::Result<Exit>) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            match remote.word() {
                Ok(What::OutBytes(bytes)) => out.extend(bytes.0),
                Ok(What::ErrBytes(bytes)) => err.extend(bytes.0),
                Ok(What::Exit(exit)) => return (out, err, Ok(exit)),
                Ok(_) => {}
                Err(error) => return (out, err, Err(error)),
            }
        }
    }

    #[test]
    fn output_and_exit_status_pass_unchanged() {
        let lab = lab();
        let mut remote = Remote::start(lab.dir.path(), "vm0", sh("cat; echo oh >&2; exit 7")).unwrap();
        let all: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
        let input = remote.input();
        let sent = all.clone();
        let sending = thread::spawn(move || {
            sent.chunks(10_000).for_each(|piece| assert!(input.write(piece)));
            input.close();
        });
        let (out, err, exit) = hear_out(&mut remote);
        sending.join().unwrap();
        assert!(out == all, "{} bytes", out.len());
        assert_eq!((err.as_slice(), exit.unwrap()), (&b"oh\n"[..], Exit::Code(7)));
    }

    #[test]
    fn program_waits_for_and_dies_with_its_client() {
        let lab = lab();
        let marks = tempfile::tempdir().unwrap();
        let script = format!("touch {0}/begun; exec cat /dev/zero", marks.path().display());
        let mut remote = Remote::start(lab.dir.path(), "vm0", sh(&script)).unwrap();
        let What::OutBytes(first) = remote.word().unwrap() else { panic!("no bytes") };
        assert!(first.0.iter().all(|byte| *byte == 0));
        // Other clients are served meanwhile.
        let mut other = Remote::start(lab.dir.path(), "vm0", sh("echo well")).unwrap();
        assert_eq!(hear_out(&mut other).0, b"well\n");
        // Not SIGINT: tests that run in the background may have it ignored, and their children
        // inherit that.
        remote.signals()(15);
        let (out, _, exit) = hear_out(&mut remote);
        assert_eq!(exit.unwrap(), Exit::Signal(15));
        assert!(out.len() < 4 << 20, "{} bytes were under way", out.len());

        let script = "trap '' INT; echo $$; exec sleep 1000";
        let mut remote = Remote::start(lab.dir.path(), "vm0", sh(script)).unwrap();
        let What::OutBytes(pid) = remote.word().unwrap() else { panic!("no bytes") };
        let pid: u32 = String::from_utf8(pid.0).unwrap().trim().parse().unwrap();
        drop(remote);
        let process = PathBuf::from(format!("/proc/{pid}"));
        for _ in 0..6000 {
            if !process.exists() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("the program outlives the client");
    }

    #[test]
    fn failure_to_run_is_reported() {
        let lab = lab();
        let error = |machine: &str, program: Program| {
            let mut remote = Remote::start(lab.dir.path(), machine, program).unwrap();
            format!("{:#}", hear_out(&mut remote).2.unwrap_err())
        };
        assert!(error("vm7", sh("true")).contains(r#"machine "vm7" is not in this lab"#));
        assert!(error("vm1", sh("true")).contains("vm1 is not running"));
        let nothing = Program { argv: vec!["no-such-program".into()], ..Program::default() };
        assert!(error("vm0", nothing).contains("no-such-program"));
        let mut rude = UnixStream::connect(path(lab.dir.path())).unwrap();
        writeln!(rude, "what?").unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut rude, &mut said).unwrap();
        assert!(said.contains("the line makes no sense"), "{said}");
    }
}
