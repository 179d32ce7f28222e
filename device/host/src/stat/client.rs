//! The reader's side of stat sockets.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::{ENDING, ENDINGS, Report};
use crate::rundir;

/// A process that has not answered within this time is stopped or overloaded.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum time from creating a socket to listening on it.
const STARTING: Duration = Duration::from_secs(10);

/// Maximum length of a report in bytes. A switch with 64 ports needs a tenth of this.
const LONGEST: usize = 1 << 20;

/// Number of processes that are asked at the same time: each takes a descriptor.
const TOGETHER: usize = 256;

/// Why a stat socket gave no report.
#[derive(Debug, thiserror::Error)]
pub enum StatError {
    /// The process has ended, or has not begun to listen.
    #[error("no process listens on {}", .0.display())]
    Ended(PathBuf),
    /// The process is stopped or overloaded.
    #[error("no counters from {} within {patience:?}", socket.display())]
    Silent {
        /// The socket.
        socket: PathBuf,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The process is stopped or overloaded, and the readers before this one wait, too.
    #[error("too many readers wait for the counters from {}", .0.display())]
    Crowded(PathBuf),
    /// The report exceeds the limit.
    #[error("the counters from {} are too long (limit {LONGEST} bytes)", .0.display())]
    TooLong(PathBuf),
    /// What was sent is not a report.
    #[error("{} does not speak as a stat socket", socket.display())]
    Foreign {
        /// The socket.
        socket: PathBuf,
        /// What is wrong with its report.
        source: serde_json::Error,
    },
    /// The socket cannot be reached or read.
    #[error("cannot read {}", socket.display())]
    Io {
        /// The socket.
        socket: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// The answer at a stat socket.
#[derive(Debug)]
pub struct Answer {
    /// The socket.
    pub socket: PathBuf,
    /// When the report was complete, or the attempt ended.
    pub at: Instant,
    /// The process's report.
    pub report: Result<Report, StatError>,
}

/// Reads the report of the process that listens on `socket`.
pub fn read(socket: &Path) -> Result<Report, StatError> {
    let mut answers = ask(vec![(socket.to_owned(), PATIENCE)]);
    let answer = answers.pop().map(|answer| answer.report);
    answer.unwrap_or_else(|| Err(StatError::Ended(socket.to_owned())))
}

/// Asks this user's cards and switches, all at the same time: those that do not answer delay the
/// others by one time-out together. `patience` returns the time-out of a socket, by default
/// [`PATIENCE`]. Sockets without a process are left out.
pub fn survey(patience: impl Fn(&Path) -> Duration) -> anyhow::Result<Vec<Answer>> {
    let sockets: Vec<_> = sockets(ENDING)?
        .into_iter()
        .map(|socket| {
            let most = patience(&socket);
            (socket, most)
        })
        .collect();
    let mut answers: Vec<Answer> =
        sockets.chunks(TOGETHER).flat_map(|sockets| ask(sockets.to_vec())).collect();
    answers.retain(|answer| {
        let Err(error) = &answer.report else { return true };
        tracing::debug!("{error}");
        let has_ended = matches!(error, StatError::Ended(_));
        if has_ended {
            remove_if_orphaned(&answer.socket);
        }
        !has_ended
    });
    Ok(answers)
}

/// Reads the reports of this user's cards and switches, switches first. Processes that do not
/// answer are skipped.
pub fn all() -> anyhow::Result<Vec<Report>> {
    let mut reports: Vec<Report> =
        survey(|_| PATIENCE)?.into_iter().filter_map(|answer| answer.report.ok()).collect();
    let order = |report: &Report| (report.kind != "switch", report.name.clone(), report.pid);
    reports.sort_by_key(order);
    Ok(reports)
}

/// Removes a socket on which no process listens: the process was killed before it could remove it.
/// The kernel then refuses the connection, in whatever PID namespace the process was. Returns
/// whether the socket was removed.
pub(crate) fn remove_if_orphaned(socket: &Path) -> bool {
    let modified = fs::symlink_metadata(socket).and_then(|found| found.modified());
    let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STARTING));
    let refused = |errno: Errno| errno == Errno::CONNREFUSED;
    is_old && open(socket).is_err_and(refused) && fs::remove_file(socket).is_ok()
}

/// Returns the sockets of this user's processes whose names have this ending.
pub(crate) fn sockets(ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    // A lab and its directory may disappear during the loop.
    let mut found: Vec<_> =
        rundir::all()?.iter().flat_map(|dir| sockets_in(dir, ending).unwrap_or_default()).collect();
    found.sort();
    Ok(found)
}

/// Returns the sockets of this ending in a run directory.
pub(crate) fn sockets_in(dir: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<_> = fs::read_dir(dir)?.flatten().map(|entry| entry.path()).collect();
    let ends = |path: &Path, ending: &str| path.to_string_lossy().ends_with(ending);
    // A process that was killed leaves a socket of each kind.
    found.retain(|path| ENDINGS.iter().any(|ending| ends(path, ending)) && !remove_if_orphaned(path));
    found.retain(|path| ends(path, ending));
    Ok(found)
}

/// Connects to a stat socket. Never blocks: `connect` would if the queue of readers were full.
fn open(socket: &Path) -> Result<UnixStream, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&stream, &SocketAddrUnix::new(socket)?)?;
    Ok(stream.into())
}

/// A report that is arriving.
struct Call {
    socket: PathBuf,
    stream: UnixStream,
    text: Vec<u8>,
    patience: Duration,
    end: Instant,
}

impl Call {
    fn begin(socket: &Path, patience: Duration) -> Result<Call, StatError> {
        let of = || socket.to_owned();
        let end = Instant::now() + patience;
        match open(socket) {
            Ok(stream) => Ok(Call { socket: of(), stream, text: Vec::new(), patience, end }),
            Err(Errno::CONNREFUSED | Errno::NOENT) => Err(StatError::Ended(of())),
            Err(Errno::AGAIN) => Err(StatError::Crowded(of())),
            Err(errno) => Err(StatError::Io { socket: of(), source: errno.into() }),
        }
    }

    /// Reads what has arrived. Returns the report at the end of the stream, or an error if that
    /// does not come in time.
    fn proceed(&mut self) -> Option<Result<Report, StatError>> {
        let mut piece = [0; 4096];
        let of = || self.socket.clone();
        match self.stream.read(&mut piece) {
            Ok(0) => Some(parse(&self.socket, &self.text)),
            Ok(count) => {
                self.text.extend_from_slice(&piece[..count]);
                if self.text.len() > LONGEST {
                    return Some(Err(StatError::TooLong(of())));
                }
                self.late()
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => self.late(),
                ErrorKind::ConnectionReset => Some(Err(StatError::Ended(of()))),
                _ => Some(Err(StatError::Io { socket: of(), source: error })),
            },
        }
    }

    /// Returns an error once the time is over.
    fn late(&self) -> Option<Result<Report, StatError>> {
        let Call { socket, patience, end, .. } = self;
        let silent = || Err(StatError::Silent { socket: socket.clone(), patience: *patience });
        (Instant::now() >= *end).then(silent)
    }
}

fn parse(socket: &Path, text: &[u8]) -> Result<Report, StatError> {
    let socket = socket.to_owned();
    if text.is_empty() {
        return Err(StatError::Ended(socket));
    }
    serde_json::from_slice(text).map_err(|source| StatError::Foreign { socket, source })
}

fn answered(socket: PathBuf, report: Result<Report, StatError>) -> Answer {
    Answer { socket, at: Instant::now(), report }
}

/// Asks the processes on these sockets, each for a limited time. Returns an answer for each, sorted
/// by socket.
fn ask(sockets: Vec<(PathBuf, Duration)>) -> Vec<Answer> {
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for (socket, patience) in sockets {
        match Call::begin(&socket, patience) {
            Ok(call) => calls.push(call),
            Err(error) => answers.push(answered(socket, Err(error))),
        }
    }
    while let Some(end) = calls.iter().map(|call: &Call| call.end).min() {
        let failure = wait(&calls, end.saturating_duration_since(Instant::now())).err();
        for mut call in std::mem::take(&mut calls) {
            let done = match failure {
                None => call.proceed(),
                Some(errno) => Some(Err(StatError::Io { socket: call.socket.clone(), source: errno.into() })),
            };
            match done {
                None => calls.push(call),
                Some(report) => answers.push(answered(call.socket, report)),
            }
        }
    }
    answers.sort_by(|one, other| one.socket.cmp(&other.socket));
    answers
}

/// Waits until one of the streams has something to read, at most this long.
fn wait(calls: &[Call], most: Duration) -> Result<(), Errno> {
    let mut fds: Vec<_> = calls.iter().map(|call| PollFd::new(&call.stream, PollFlags::IN)).collect();
    let most = Timespec {
        tv_sec: most.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: most.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&most)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::sync::{Arc, Barrier};
    use std::thread;

    use serde_json::json;

    use super::*;

    const ANSWER: &str = r#"{"kind":"card","name":"card0","pid":7,"counters":{"packets":3}}"#;

    #[test]
    fn processes_are_asked_at_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        let both = Arc::new(Barrier::new(2));
        let (sockets, servers): (Vec<_>, Vec<_>) = ["a", "b"]
            .map(|name| dir.path().join(name))
            .map(|socket| {
                let (listener, both) = (UnixListener::bind(&socket).unwrap(), both.clone());
                let server = thread::spawn(move || {
                    let mut reader = listener.accept().unwrap().0;
                    // Each answers once the other has been asked.
                    both.wait();
                    let _ = reader.write_all(ANSWER.as_bytes());
                });
                ((socket, Duration::from_secs(20)), server)
            })
            .into_iter()
            .unzip();
        let answers = ask(sockets);
        assert!(answers.iter().all(|answer| answer.report.is_ok()), "{answers:?}");
        servers.into_iter().for_each(|server| server.join().unwrap());
    }

    #[test]
    fn silent_process_does_not_hide_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name| dir.path().join(name);
        // It does not accept, like a process that is stopped.
        let _stopped = UnixListener::bind(path("a")).unwrap();
        let works = UnixListener::bind(path("b")).unwrap();
        let served = thread::spawn(move || works.accept().unwrap().0.write_all(ANSWER.as_bytes()));
        let short = Duration::from_millis(100);
        let answers = ask(vec![(path("b"), PATIENCE), (path("none"), short), (path("a"), short)]);
        served.join().unwrap().unwrap();
        let sockets: Vec<_> = answers.iter().map(|answer| answer.socket.clone()).collect();
        assert_eq!(sockets, ["a", "b", "none"].map(path));
        let [a, b, none] = <[Answer; 3]>::try_from(answers).unwrap();
        let said = format!("no counters from {} within 100ms", path("a").display());
        assert_eq!(a.report.unwrap_err().to_string(), said);
        assert_eq!(b.report.unwrap().counters, json!({ "packets": 3 }));
        assert!(matches!(none.report, Err(StatError::Ended(_))));
    }

    #[test]
    fn all_sockets_of_killed_processes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["card-1-2.stat", "card-1-2.tap", "card-1-2.rule", "card0.sock"];
        let age = |path: &Path| {
            let last = rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 };
            let times = rustix::fs::Timestamps { last_access: last, last_modification: last };
            rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty()).unwrap();
        };
        for path in names.map(|name| dir.path().join(name)) {
            drop(UnixListener::bind(&path).unwrap());
            age(&path);
        }
        let alive = dir.path().join("card-1-3.stat");
        let _listener = UnixListener::bind(&alive).unwrap();
        age(&alive);
        assert_eq!(sockets_in(dir.path(), ENDING).unwrap(), [alive]);
        let mut left: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["card-1-3.stat", "card0.sock"], "other sockets are not these processes'");
    }

    #[test]
    fn full_queue_of_readers_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = open(&path) {
            waiting.push(stream);
        }
        assert!(matches!(read(&path), Err(StatError::Crowded(_))), "{} wait", waiting.len());
    }

    #[test]
    fn wrong_reports_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let answer = |name, text: Vec<u8>| {
            let path = dir.path().join(name);
            let listener = UnixListener::bind(&path).unwrap();
            let server = thread::spawn(move || listener.accept().unwrap().0.write_all(&text));
            let report = read(&path);
            let _ = server.join().unwrap();
            report
        };
        assert!(matches!(answer("none", Vec::new()), Err(StatError::Ended(_))));
        assert!(matches!(answer("foreign", b"SSH-2.0".to_vec()), Err(StatError::Foreign { .. })));
        assert!(matches!(answer("long", vec![b' '; LONGEST + 1]), Err(StatError::TooLong(_))));
        assert_eq!(answer("good", ANSWER.into()).unwrap().name, "card0");
    }
}
