//! A program in a machine of another process's lab, started by `hamlyn up` and reached through that
//! lab's door.

use std::io::BufReader;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use anyhow::{Context, bail};
use hamlyn_agent::lines::next_line;
use hamlyn_agent::protocol::{
    Bytes, EVENT_COST, Event, INPUT_QUEUE, MAX_EVENT, MAX_INPUT, Program, Request, Verb, What,
};

use super::door::{self, Hello};

/// Consumed bytes of a program's output after which its window is extended.
const TAKEN: usize = 256 << 10;

/// The only request id of a connection.
const ID: u64 = 1;

/// A program in a machine. Dropping it kills the program.
#[derive(Debug)]
pub struct Remote {
    input: BufReader<UnixStream>,
    output: Arc<Output>,
    taken: usize,
}

/// The program's standard input.
#[derive(Debug, Clone)]
pub struct Input(Arc<Output>);

#[derive(Debug)]
struct Output {
    stream: Mutex<UnixStream>,
    /// Pieces of input that the program has not received yet; `None` once it accepts no more.
    under_way: Mutex<Option<usize>>,
    fewer: Condvar,
}

impl Remote {
    /// Starts a program in a machine of the lab in this directory. Its output arrives as bytes.
    pub fn start(lab: &Path, machine: &str, program: Program) -> anyhow::Result<Remote> {
        let path = door::path(lab);
        let mut stream = UnixStream::connect(&path)
            .with_context(|| format!("cannot connect to {}: does hamlyn up still run?", path.display()))?;
        // The server may have refused and hung up already. Its reason can still be read.
        let _ = door::say(&mut stream, &Hello { machine: machine.to_owned() });
        let run = Request { id: ID, verb: Verb::Run(Program { raw: true, ..program }) };
        let _ = door::say(&mut stream, &run);
        let input = BufReader::new(stream.try_clone().context("cannot share the stream")?);
        let (stream, under_way) = (Mutex::new(stream), Mutex::new(Some(0)));
        let output = Arc::new(Output { stream, under_way, fewer: Condvar::new() });
        Ok(Remote { input, output, taken: 0 })
    }

    /// Returns its standard input. It must have been started with one.
    pub fn input(&self) -> Input {
        Input(self.output.clone())
    }

    /// Returns a function that sends it signals.
    pub fn signals(&self) -> impl Fn(i32) + Send + use<> {
        let output = self.output.clone();
        // Fails if the program has ended, which then also ends all else.
        move |signal| drop(output.tell(Verb::Kill(signal)))
    }

    /// Returns the next event: output bytes, or the exit, which is the last. Fails if the program
    /// could not be started, or its machine is gone.
    pub fn word(&mut self) -> anyhow::Result<What> {
        loop {
            let line = next_line(&mut self.input, MAX_EVENT).context("the machine's lab is gone")?;
            let Some(Ok(line)) = line else { bail!("the machine's lab is gone") };
            let event: Event = serde_json::from_slice(&line).context("the lab talks nonsense")?;
            match event.what {
                What::Took(_) => self.output.took(),
                What::Error(reason) => bail!("{reason}"),
                // The program does not read its input any longer, or has just ended.
                What::Refused(reason) => {
                    tracing::debug!("refused: {reason}");
                    self.output.takes_no_more();
                }
                what => {
                    self.take(&what);
                    return Ok(what);
                }
            }
        }
    }

    fn take(&mut self, what: &What) {
        self.taken += what.cost().max(EVENT_COST);
        if self.taken >= TAKEN {
            // Fails if the lab is gone; the next event then reports it.
            let _ = self.output.tell(Verb::More(std::mem::take(&mut self.taken)));
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.output.takes_no_more();
        self.output.hang_up();
    }
}

impl Input {
    /// Sends bytes to it, and waits while too many are in flight. Returns `false` if it accepts no
    /// more.
    pub fn write(&self, bytes: &[u8]) -> bool {
        bytes
            .chunks(MAX_INPUT)
            .all(|piece| self.0.wait_for_room() && self.0.tell(Verb::Bytes(Bytes(piece.to_vec()))).is_ok())
    }

    /// Ends the connection, and so the program.
    pub fn hang_up(&self) {
        self.0.hang_up();
    }

    /// Closes its standard input.
    pub fn close(&self) {
        let _ = self.0.tell(Verb::Eof {});
    }
}

impl Output {
    fn tell(&self, verb: Verb) -> anyhow::Result<()> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        door::say(&mut stream, &Request { id: ID, verb })
    }

    fn hang_up(&self) {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(Shutdown::Both);
    }

    fn wait_for_room(&self) -> bool {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |pieces: &mut Option<usize>| pieces.is_some_and(|pieces| pieces >= INPUT_QUEUE);
        let mut under_way = self.fewer.wait_while(under_way, full).unwrap_or_else(PoisonError::into_inner);
        *under_way = under_way.map(|pieces| pieces + 1);
        under_way.is_some()
    }

    fn took(&self) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        *under_way = under_way.map(|pieces| pieces.saturating_sub(1));
        self.fewer.notify_all();
    }

    fn takes_no_more(&self) {
        *self.under_way.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.fewer.notify_all();
    }
}
