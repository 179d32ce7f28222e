//! The host's end of the agent protocol. The guest is not trusted. Whatever it sends, and however
//! much, uses a bounded part of this process's memory. After a short while it also uses no more of
//! this process's time than of the guest's own.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use hamlyn_agent::lines::next_piece;
use hamlyn_agent::protocol::{Event, MAX_EVENT, MAX_REQUEST, Program, Request, Verb, What};

use crate::plain::plain;

/// Write time-out. A guest that has not read its input by then is considered stuck.
const STUCK: Duration = Duration::from_secs(30);

/// Bytes that a program may send before the host has consumed them, see [`What::cost`].
const WINDOW: usize = 1 << 20;

/// Bytes kept for a reader that does not consume: a window, and as much again for answers, which no
/// window limits.
const UNREAD: usize = 2 * WINDOW;

/// After this many bytes of unrequested input the listening thread pauses, so that a guest that
/// floods it slows down only itself.
const UNWANTED: usize = 256 << 10;
const NAP: Duration = Duration::from_millis(20);

/// Number of boots of a guest after which further ones count as unrequested input.
const BOOTS: u64 = 100;

/// Length of the longest quotation of guest input in a log line.
const QUOTED: usize = 200;

/// A connection to one guest's agent.
#[derive(Debug)]
pub(super) struct Agent {
    stream: Mutex<UnixStream>,
    heard: Arc<Heard>,
    next_id: AtomicU64,
}

/// The answers to a request. They end with a final answer. If the guest reboots or its machine is
/// gone, they end without one.
#[derive(Debug)]
pub(super) struct Answers {
    words: Receiver<What>,
    unread: Arc<AtomicUsize>,
}

impl Answers {
    /// Receives the next answer.
    pub(super) fn recv_timeout(&self, patience: Duration) -> Result<What, RecvTimeoutError> {
        let what = self.words.recv_timeout(patience)?;
        self.unread.fetch_sub(what.cost(), Ordering::Relaxed);
        Ok(what)
    }
}

/// The sending end of [`Answers`].
#[derive(Debug)]
struct Waiting {
    words: Sender<What>,
    unread: Arc<AtomicUsize>,
}

impl Waiting {
    fn new() -> (Waiting, Answers) {
        let (sender, words) = channel();
        let unread = Arc::<AtomicUsize>::default();
        (Waiting { words: sender, unread: unread.clone() }, Answers { words, unread })
    }

    /// Passes an answer on and returns whether more may follow. A reader that does not consume is
    /// sent an error once the limit is exceeded.
    fn pass(&self, what: What) -> bool {
        let last = matches!(what, What::Exit(_) | What::Error(_) | What::Data(_));
        let what = if self.unread.load(Ordering::Relaxed) > UNREAD {
            What::Error(format!("the guest sent more than {UNREAD} bytes that were not read"))
        } else {
            what
        };
        let flooded = !last && matches!(what, What::Error(_));
        self.unread.fetch_add(what.cost(), Ordering::Relaxed);
        // The reader may be gone, which is fine.
        let _ = self.words.send(what);
        !last && !flooded
    }
}

/// State that the listening thread shares with the others.
#[derive(Debug, Default)]
struct Heard {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of times the guest has become ready.
    boots: u64,
    /// Number of lines that were unrequested or invalid.
    nonsense: u64,
    /// The highest request id used.
    asked: u64,
    /// Whether the stream has ended: QEMU is gone.
    over: bool,
    /// The receivers of events, by request id.
    waiting: HashMap<u64, Waiting>,
}

impl Agent {
    /// Starts the protocol with the agent of the guest `name` over `stream`. After the stream has
    /// ended, `fate` returns how the machine ended.
    pub(super) fn new(
        name: &str,
        stream: UnixStream,
        fate: impl FnOnce() -> Option<String> + Send + 'static,
    ) -> anyhow::Result<Agent> {
        stream.set_write_timeout(Some(STUCK)).context("cannot set a time-out")?;
        let heard = Arc::new(Heard::default());
        let input = BufReader::new(stream.try_clone().context("cannot share the agent's stream")?);
        thread::spawn({
            let (heard, name) = (heard.clone(), name.to_owned());
            move || {
                heard.listen(&name, input);
                heard.end(fate());
            }
        });
        let agent = Agent { stream: Mutex::new(stream), heard, next_id: AtomicU64::new(1) };
        // Terminates a partial line that an earlier host may have left.
        agent.write(b"\n")?;
        Ok(agent)
    }

    /// Returns how often the guest has become ready.
    pub(super) fn boots(&self) -> u64 {
        self.heard.lock().boots
    }

    /// Waits until the guest has become ready more than `boots` times.
    pub(super) fn wait_for_boot(&self, boots: u64, patience: Duration) -> anyhow::Result<()> {
        let still_waiting = |state: &mut State| state.boots <= boots && !state.over;
        let waited = self.heard.changed.wait_timeout_while(self.heard.lock(), patience, still_waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.boots > boots {
            return Ok(());
        }
        if state.over {
            bail!("the machine ended before its agent was ready");
        }
        match state.nonsense {
            0 => bail!("the agent is not ready after {patience:?}"),
            lines => bail!(
                "the agent is not ready after {patience:?}, but has said {lines} lines that make no sense"
            ),
        }
    }

    /// Starts a program. It gets an initial window, which [`Agent::taken`] extends.
    pub(super) fn start(&self, program: Program) -> anyhow::Result<(u64, Answers)> {
        self.ask(Verb::Run(Program { window: Some(WINDOW), ..program }))
    }

    /// Sends a request. Returns its id and its answers.
    pub(super) fn ask(&self, verb: Verb) -> anyhow::Result<(u64, Answers)> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (waiting, answers) = Waiting::new();
        {
            let mut state = self.heard.lock();
            if state.over {
                bail!("the machine is gone");
            }
            state.asked = state.asked.max(id);
            state.waiting.insert(id, waiting);
        }
        if let Err(error) = self.tell(id, verb) {
            self.heard.lock().waiting.remove(&id);
            return Err(error);
        }
        Ok((id, answers))
    }

    /// Sends a message that belongs to an earlier request.
    pub(super) fn tell(&self, id: u64, verb: Verb) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(&Request { id, verb }).context("cannot write the request")?;
        if line.len() > MAX_REQUEST {
            bail!("the request is {} bytes long (limit {MAX_REQUEST})", line.len());
        }
        line.push(b'\n');
        self.write(&line)
    }

    /// Counts a consumed event of a program, and extends its window from time to time.
    pub(super) fn taken(&self, id: u64, what: &What, taken: &mut usize) -> anyhow::Result<()> {
        *taken += what.cost();
        if *taken < WINDOW / 4 {
            return Ok(());
        }
        self.tell(id, Verb::More(std::mem::take(taken)))
    }

    /// Ends a program that has lost its reader.
    pub(super) fn abandon(&self, id: u64) {
        if self.heard.lock().waiting.remove(&id).is_none() {
            // The program has ended.
            return;
        }
        // This fails if the machine is gone, which needs no kill. What the program has already sent
        // must not wait for a window.
        let _ = self.tell(id, Verb::More(usize::MAX));
        let _ = self.tell(id, Verb::Kill(9));
    }

    fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(bytes).context("cannot write to the agent")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Also ends the listening thread.
        let stream = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Classification of a guest's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sense {
    /// A receiver waits for it.
    Wanted,
    /// It comes from a program that was abandoned: no receiver waits for it now.
    Late,
    /// It was never requested, or is invalid.
    None,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, name: &str, mut input: BufReader<UnixStream>) {
        let (mut unwanted, mut goes_on) = (0, false);
        while let Ok(Some(line)) = next_piece(&mut input, MAX_EVENT) {
            let begins = !std::mem::replace(&mut goes_on, !line.whole);
            let event = (begins && line.whole).then(|| serde_json::from_slice::<Event>(&line.bytes).ok());
            match event.flatten().map_or(Sense::None, |event| self.hear(name, event)) {
                Sense::Wanted => continue,
                Sense::Late => {}
                Sense::None => self.complain(name, &line.bytes),
            }
            unwanted += line.bytes.len() + 1;
            if unwanted >= UNWANTED {
                unwanted = 0;
                thread::sleep(NAP);
            }
        }
    }

    /// Handles the end of the machine: fails all pending requests.
    fn end(&self, fate: Option<String>) {
        let mut state = self.lock();
        state.over = true;
        for (_, waiting) in state.waiting.drain() {
            if let Some(fate) = &fate {
                waiting.pass(What::Error(format!("its machine ended: {fate}")));
            }
        }
        self.changed.notify_all();
    }

    /// Logs an invalid line of a guest: the first, the second, the fourth, and so on.
    fn complain(&self, name: &str, line: &[u8]) {
        let count = {
            let mut state = self.lock();
            state.nonsense += 1;
            state.nonsense
        };
        if count.is_power_of_two() {
            let text = plain(&String::from_utf8_lossy(&line[..line.len().min(QUOTED)]));
            tracing::warn!("{name}: {count} invalid lines so far, the latest: {text}");
        }
    }

    fn hear(&self, name: &str, event: Event) -> Sense {
        let mut state = self.lock();
        match (event.id, event.what) {
            (_, What::Ready { .. }) => {
                tracing::debug!("{name}: the agent is ready");
                state.boots += 1;
                // Programs from before the reboot have ended.
                state.waiting.clear();
                self.changed.notify_all();
                // More boots than a machine can do are a flood like any other.
                if state.boots <= BOOTS { Sense::Wanted } else { Sense::None }
            }
            (Some(id), what) => {
                let Some(waiting) = state.waiting.get(&id) else {
                    return if id <= state.asked { Sense::Late } else { Sense::None };
                };
                if !waiting.pass(what) {
                    state.waiting.remove(&id);
                }
                Sense::Wanted
            }
            (None, _) => Sense::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use hamlyn_agent::protocol::{Exit, Program};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Runs the real agent in this process.
    fn agent() -> Agent {
        let (host, guest) = UnixStream::pair().unwrap();
        let input = BufReader::new(guest.try_clone().unwrap());
        thread::spawn(move || hamlyn_agent::serve::serve(input, guest, "vm0").unwrap());
        Agent::new("vm0", host, || None).unwrap()
    }

    #[test]
    fn the_guest_becomes_ready_and_answers() {
        let agent = agent();
        agent.wait_for_boot(0, PATIENCE).unwrap();
        let program = Program { argv: vec!["cat".into()], stdin: true, ..Program::default() };
        let (id, answers) = agent.start(program).unwrap();
        agent.tell(id, Verb::Stdin("hello\n".into())).unwrap();
        assert_eq!(answers.recv_timeout(PATIENCE).unwrap(), What::Stdout("hello".into()));
        agent.tell(id, Verb::Eof {}).unwrap();
        assert_eq!(answers.recv_timeout(PATIENCE).unwrap(), What::Exit(Exit::Code(0)));
        assert!(answers.recv_timeout(PATIENCE).is_err(), "there is no word after the last");
    }

    #[test]
    fn end_of_machine_fails_all_pending_requests() {
        let (host, guest) = UnixStream::pair().unwrap();
        let agent = Agent::new("vm0", host, || None).unwrap();
        let (_, answers) = agent.ask(Verb::Read("/proc/version".into())).unwrap();
        drop(guest);
        assert!(answers.recv_timeout(PATIENCE).is_err());
        let error = agent.wait_for_boot(0, PATIENCE).unwrap_err().to_string();
        assert!(error.contains("ended before its agent was ready"), "{error}");
        assert!(agent.ask(Verb::Read("/proc/version".into())).is_err());
    }

    #[test]
    fn reboot_ends_earlier_requests() {
        let (host, mut guest) = UnixStream::pair().unwrap();
        let agent = Agent::new("vm0", host, || None).unwrap();
        let (_, answers) = agent.ask(Verb::Read("/proc/version".into())).unwrap();
        writeln!(guest, r#"{{"ready":{{"version":"1","name":"vm0"}}}}"#).unwrap();
        agent.wait_for_boot(0, PATIENCE).unwrap();
        assert!(answers.recv_timeout(PATIENCE).is_err());
        assert_eq!(agent.boots(), 1);
    }

    #[test]
    fn invalid_lines_are_counted_and_skipped() {
        let (host, mut guest) = UnixStream::pair().unwrap();
        let agent = Agent::new("vm0", host, || None).unwrap();
        for _ in 0..1000 {
            writeln!(guest, "\x1b[2J what? {{").unwrap();
            writeln!(guest, r#"{{"id":77,"stdout":"unknown id"}}"#).unwrap();
        }
        // A line longer than any event, sent in pieces.
        for _ in 0..300 {
            guest.write_all(&[b'x'; 10_000]).unwrap();
        }
        writeln!(guest).unwrap();
        let (id, answers) = agent.start(Program::default()).unwrap();
        writeln!(guest, r#"{{"id":{id},"exit":{{"code":0}}}}"#).unwrap();
        assert_eq!(answers.recv_timeout(PATIENCE).unwrap(), What::Exit(Exit::Code(0)));
        let error = agent.wait_for_boot(0, Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.contains("has said 2002 lines that make no sense"), "{error}");
    }

    /// Limits what a guest can make the host keep for one run: twice the window.
    #[test]
    fn flooding_guest_is_cut_off_with_a_reason() {
        let (host, mut guest) = UnixStream::pair().unwrap();
        let agent = Agent::new("vm0", host, || None).unwrap();
        let (id, answers) = agent.start(Program::default()).unwrap();
        let line = format!(r#"{{"id":{id},"stdout":"{}"}}"#, "x".repeat(60_000));
        // 30 MB that are not read.
        for _ in 0..500 {
            writeln!(guest, "{line}").unwrap();
        }
        writeln!(guest, r#"{{"ready":{{"version":"1","name":"vm0"}}}}"#).unwrap();
        agent.wait_for_boot(0, PATIENCE).unwrap();
        let mut kept = 0;
        let last = loop {
            match answers.recv_timeout(PATIENCE) {
                Ok(What::Stdout(line)) => kept += line.len(),
                Ok(other) => break format!("{other:?}"),
                Err(_) => break "no last word".to_owned(),
            }
        };
        assert!(kept <= 4 << 20, "{kept} bytes were kept");
        assert!(last.contains("bytes that were not read"), "{last}");
    }

    #[test]
    fn too_long_request_is_not_sent() {
        let agent = agent();
        let error = agent.tell(1, Verb::Stdin("x".repeat(MAX_REQUEST))).unwrap_err().to_string();
        assert!(error.contains("(limit 65536)"), "{error}");
    }
}
