//! The host's end of the agent's protocol.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use hamlyn_agent::lines::next_line;
use hamlyn_agent::protocol::{Event, MAX_EVENT, MAX_REQUEST, Request, Verb, What};

/// A guest that has not read what it was told by then never will.
const STUCK: Duration = Duration::from_secs(30);

/// A conversation with one guest's agent.
#[derive(Debug)]
pub(super) struct Agent {
    stream: Mutex<UnixStream>,
    heard: Arc<Heard>,
    next_id: AtomicU64,
}

/// What the listening thread leaves for the others.
#[derive(Debug, Default)]
struct Heard {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How often the guest has said that it is ready.
    boots: u64,
    /// The stream has ended: QEMU is gone.
    over: bool,
    /// Who waits for which id's events.
    waiting: HashMap<u64, Sender<What>>,
}

impl Agent {
    /// Speaks with the agent over `stream`.
    pub(super) fn new(stream: UnixStream) -> anyhow::Result<Agent> {
        stream.set_write_timeout(Some(STUCK)).context("cannot set a time-out")?;
        let heard = Arc::new(Heard::default());
        let input = BufReader::new(stream.try_clone().context("cannot share the agent's stream")?);
        thread::spawn({
            let heard = heard.clone();
            move || heard.listen(input)
        });
        let agent = Agent { stream: Mutex::new(stream), heard, next_id: AtomicU64::new(1) };
        // Ends what a host before us left half said.
        agent.write(b"\n")?;
        Ok(agent)
    }

    /// How often the guest has become ready.
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
        bail!("the agent is not ready after {patience:?}")
    }

    /// Asks something; returns the question's id and what answers it. The answers end without a last word if the guest
    /// reboots or its machine is gone.
    pub(super) fn ask(&self, verb: Verb) -> anyhow::Result<(u64, Receiver<What>)> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answers) = channel();
        {
            let mut state = self.heard.lock();
            if state.over {
                bail!("the machine is gone");
            }
            state.waiting.insert(id, sender);
        }
        self.tell(id, verb)?;
        Ok((id, answers))
    }

    /// Says something about an earlier question.
    pub(super) fn tell(&self, id: u64, verb: Verb) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(&Request { id, verb }).context("cannot write the request")?;
        if line.len() > MAX_REQUEST {
            bail!("the request is {} bytes long (limit {MAX_REQUEST})", line.len());
        }
        line.push(b'\n');
        self.write(&line)
    }

    /// Stops waiting for answers to `id`.
    pub(super) fn forget(&self, id: u64) {
        self.heard.lock().waiting.remove(&id);
    }

    fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(bytes).context("cannot write to the agent")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Ends the listening thread too.
        let stream = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, mut input: BufReader<UnixStream>) {
        while let Ok(Some(line)) = next_line(&mut input, MAX_EVENT) {
            let event = line.ok().and_then(|line| serde_json::from_slice::<Event>(&line).ok());
            match event {
                Some(event) => self.hear(event),
                None => tracing::warn!("the agent said something that is not an event"),
            }
        }
        let mut state = self.lock();
        state.over = true;
        state.waiting.clear();
        self.changed.notify_all();
    }

    fn hear(&self, event: Event) {
        let mut state = self.lock();
        match (event.id, event.what) {
            (_, What::Ready { name, version }) => {
                tracing::debug!("{name}: agent {version} is ready");
                state.boots += 1;
                // What ran before the reboot runs no more.
                state.waiting.clear();
                self.changed.notify_all();
            }
            (Some(id), what) => {
                let last = matches!(what, What::Exit(_) | What::Error(_) | What::Data(_));
                if let Some(waiting) = state.waiting.get(&id) {
                    // Whoever no longer listens need not hear.
                    let _ = waiting.send(what);
                }
                if last {
                    state.waiting.remove(&id);
                }
            }
            (None, what) => tracing::warn!("the agent said: {what:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use hamlyn_agent::protocol::{Exit, Program};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// The real agent, in this process.
    fn agent() -> Agent {
        let (host, guest) = UnixStream::pair().unwrap();
        let input = BufReader::new(guest.try_clone().unwrap());
        thread::spawn(move || hamlyn_agent::serve::serve(input, guest, "vm0").unwrap());
        Agent::new(host).unwrap()
    }

    #[test]
    fn the_guest_becomes_ready_and_answers() {
        let agent = agent();
        agent.wait_for_boot(0, PATIENCE).unwrap();
        let program = Program { argv: vec!["cat".into()], stdin: true, ..Program::default() };
        let (id, answers) = agent.ask(Verb::Run(program)).unwrap();
        agent.tell(id, Verb::Stdin("hello\n".into())).unwrap();
        assert_eq!(answers.recv_timeout(PATIENCE).unwrap(), What::Stdout("hello".into()));
        agent.tell(id, Verb::Eof {}).unwrap();
        assert_eq!(answers.recv_timeout(PATIENCE).unwrap(), What::Exit(Exit::Code(0)));
        assert!(answers.recv_timeout(PATIENCE).is_err(), "there is no word after the last");
    }

    #[test]
    fn a_machine_that_ends_disappoints_all_who_wait() {
        let (host, guest) = UnixStream::pair().unwrap();
        let agent = Agent::new(host).unwrap();
        let (_, answers) = agent.ask(Verb::Read("/proc/version".into())).unwrap();
        drop(guest);
        assert!(answers.recv_timeout(PATIENCE).is_err());
        let error = agent.wait_for_boot(0, PATIENCE).unwrap_err().to_string();
        assert!(error.contains("ended before its agent was ready"), "{error}");
        assert!(agent.ask(Verb::Read("/proc/version".into())).is_err());
    }

    #[test]
    fn a_reboot_ends_what_ran_before() {
        let (host, mut guest) = UnixStream::pair().unwrap();
        let agent = Agent::new(host).unwrap();
        let (_, answers) = agent.ask(Verb::Read("/proc/version".into())).unwrap();
        writeln!(guest, r#"{{"ready":{{"version":"1","name":"vm0"}}}}"#).unwrap();
        agent.wait_for_boot(0, PATIENCE).unwrap();
        assert!(answers.recv_timeout(PATIENCE).is_err());
        assert_eq!(agent.boots(), 1);
    }

    #[test]
    fn a_request_that_the_agent_would_refuse_to_read_is_not_sent() {
        let agent = agent();
        let error = agent.tell(1, Verb::Stdin("x".repeat(MAX_REQUEST))).unwrap_err().to_string();
        assert!(error.contains("(limit 65536)"), "{error}");
    }
}
