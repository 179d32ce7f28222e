//! The agent's loop: reads a request, executes it, continues. Only the end of the input ends it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};

use crate::lines::next_line;
use crate::protocol::{Event, MAX_FILE, MAX_REQUEST, Program, Request, Verb, What};
use crate::run::{Run, Tell};

/// Serves one stream of requests, and returns at its end.
pub fn serve(mut input: impl BufRead, output: impl Write + Send + 'static, name: &str) -> io::Result<()> {
    let agent = Agent { output: Arc::new(Mutex::new(Box::new(output))), runs: Arc::default() };
    agent.emit(None, What::Ready { version: env!("CARGO_PKG_VERSION").into(), name: name.into() });
    while let Some(line) = next_line(&mut input, MAX_REQUEST)? {
        match line {
            // A connecting host begins with an empty line. It terminates a line that a previous
            // host left incomplete.
            Ok(line) if line.is_empty() => {}
            Ok(line) => agent.obey(&line),
            Err(_) => {
                agent.emit(None, What::Error(format!("the line is too long (limit {MAX_REQUEST} bytes)")))
            }
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Agent {
    output: Arc<Mutex<Box<dyn Write + Send>>>,
    runs: Arc<Mutex<HashMap<u64, Run>>>,
}

impl Agent {
    fn obey(&self, line: &[u8]) {
        let request: Request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => return self.emit(None, What::Error(format!("the line is not a request: {error}"))),
        };
        let id = request.id;
        let failed: fn(String) -> What = match request.verb {
            Verb::Run(_) | Verb::Read(_) => What::Error,
            Verb::Stdin(_) | Verb::Bytes(_) | Verb::More(_) | Verb::Eof {} | Verb::Kill(_) => What::Refused,
        };
        let result = match request.verb {
            Verb::Run(program) => self.run(id, &program),
            Verb::Read(path) => read(&path).map(|text| self.emit(Some(id), What::Data(text))),
            Verb::Stdin(text) => self.with_run(id, |run| run.write(text.into_bytes())),
            Verb::Bytes(bytes) => self.with_run(id, |run| run.write(bytes.0)),
            // The last output of a run may be taken after its end.
            Verb::More(cost) => {
                let _ = self.with_run(id, |run| {
                    run.widen(cost);
                    Ok(())
                });
                Ok(())
            }
            Verb::Eof {} => self.with_run(id, |run| {
                run.close_input();
                Ok(())
            }),
            Verb::Kill(signal) => self.with_run(id, |run| run.kill(signal)),
        };
        if let Err(error) = result {
            self.emit(Some(id), failed(format!("{error:#}")));
        }
    }

    fn run(&self, id: u64, program: &Program) -> anyhow::Result<()> {
        // Locked until the run is in the table, where its end must find it.
        let mut runs = lock(&self.runs);
        if runs.contains_key(&id) {
            self.emit(Some(id), What::Refused(format!("run {id} is already running")));
            return Ok(());
        }
        runs.insert(id, Run::start(program, Teller { agent: self.clone(), id })?);
        Ok(())
    }

    fn with_run(&self, id: u64, act: impl FnOnce(&mut Run) -> anyhow::Result<()>) -> anyhow::Result<()> {
        match lock(&self.runs).get_mut(&id) {
            Some(run) => act(run),
            None => bail!("run {id} is not running"),
        }
    }

    fn emit(&self, id: Option<u64>, what: What) {
        let Ok(mut line) = serde_json::to_vec(&Event { id, what }) else { return };
        line.push(b'\n');
        let mut output = lock(&self.output);
        // Without a connected host, the event is lost, and the loss cannot be reported.
        let _ = output.write_all(&line).and_then(|()| output.flush());
    }
}

#[derive(Clone)]
struct Teller {
    agent: Agent,
    id: u64,
}

impl Tell for Teller {
    fn tell(&self, what: What) {
        self.agent.emit(Some(self.id), what);
    }

    fn dead(&self) {
        if let Some(run) = lock(&self.agent.runs).get_mut(&self.id) {
            run.dead();
        }
    }

    fn forget(&self) {
        lock(&self.agent.runs).remove(&self.id);
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot open {path:?}"))?;
    // The size is not known beforehand: files of /proc and /sys have none.
    file.take(MAX_FILE as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {path:?}"))?;
    if bytes.len() > MAX_FILE {
        bail!("{path:?} is too long (limit {MAX_FILE} bytes)");
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Ignores poisoning: the table and the stream change in single steps, so a panic leaves them
/// consistent.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
