//! The example `connections`, which listens and connects on command: in a machine, or at the socket
//! of a card.

use anyhow::{Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::program::Program;

/// The place where the example runs.
pub trait Place: Sized {
    /// Starts it at the lab's card with this number, which is also the host ID.
    fn start(lab: &Lab, card: usize) -> Result<Self>;

    /// Sends a command.
    fn say(&mut self, line: &str) -> Result<()>;

    /// Waits for the result of a command.
    fn answer(&mut self) -> Result<Value>;
}

impl Place for Run {
    fn start(lab: &Lab, card: usize) -> Result<Self> {
        lab.vm(card).run(["connections"])
    }

    fn say(&mut self, line: &str) -> Result<()> {
        Run::say(self, line)
    }

    fn answer(&mut self) -> Result<Value> {
        Run::answer(self)
    }
}

impl Place for Program {
    fn start(lab: &Lab, card: usize) -> Result<Self> {
        Program::start(lab, card, &["connections"])
    }

    fn say(&mut self, line: &str) -> Result<()> {
        Program::say(self, line)
    }

    fn answer(&mut self) -> Result<Value> {
        Program::answer(self)
    }
}

/// The example with its line protocol: one line for each command, and one for its result.
pub struct Desk<P>(pub P);

impl<P> From<P> for Desk<P> {
    fn from(started: P) -> Self {
        Self(started)
    }
}

impl<P: Place> Desk<P> {
    /// Starts the example at a card.
    pub fn open(lab: &Lab, card: usize) -> Result<Self> {
        P::start(lab, card).map(Self)
    }

    /// Sends a command.
    pub fn begin(&mut self, line: &str) -> Result<()> {
        self.0.say(line)
    }

    /// Waits for the result of a command.
    pub fn answer(&mut self) -> Result<Value> {
        self.0.answer()
    }

    /// Sends a command and waits for its result.
    pub fn ask(&mut self, line: &str) -> Result<Value> {
        self.begin(line)?;
        self.answer()
    }

    /// Sends a command, and fails if the answer differs.
    pub fn expect(&mut self, line: &str, answer: &Value) -> Result<()> {
        let given = self.ask(line)?;
        ensure!(given == *answer, "{line}: {given}, not {answer}");
        Ok(())
    }

    /// Sends a command, and fails unless the result is an error that contains `reason`.
    pub fn fails(&mut self, line: &str, reason: &str) -> Result<()> {
        let given = self.ask(line)?;
        ensure!(given["error"].as_str().is_some_and(|text| text.contains(reason)), "{line}: {given}");
        Ok(())
    }
}

/// Starts a listener called `svc` at one card, and a process at another that is connected to it.
/// Their connection has number 1 in both.
pub fn connected<S: Place, C: Place>(lab: &Lab, server: usize, client: usize) -> Result<(Desk<S>, Desk<C>)> {
    let (mut listening, mut connecting) = (Desk::<S>::open(lab, server)?, Desk::<C>::open(lab, client)?);
    listening.expect("listen svc", &json!({ "listening": "svc" }))?;
    connecting.begin(&format!("connect {server} svc question"))?;
    let accepted = json!({ "connection": 1, "host": client, "private": "question" });
    listening.expect("accept svc answer", &accepted)?;
    let made = connecting.answer()?;
    ensure!(made == json!({ "connection": 1, "private": "answer" }), "{made}");
    Ok((listening, connecting))
}

/// Returns the report of a connection's end.
pub fn end(reason: &str, private: &str) -> Value {
    json!({ "reason": reason, "private": private })
}
