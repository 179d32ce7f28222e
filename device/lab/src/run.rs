//! A program that runs in a guest.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use hamlyn_agent::protocol::{Exit, Program, Verb, What};
use serde_json::Value;

use super::agent::{Agent, Answers};
use super::evidence::Evidence;
use crate::plain::plain;

/// Largest part of a program's standard error that is kept, in bytes: the end of it.
const STDERR: usize = 64 << 10;

/// Largest output of a program whose end is waited for, in bytes.
const ALL: usize = 16 << 20;

/// The next event of a program, see [`Run::hear`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A line of its standard output.
    Line(String),
    /// It printed nothing within the time limit.
    Nothing,
    /// Its end.
    End(Exit),
}

/// A program in a guest: its input, its output line by line, and its end. Dropping it kills the
/// program.
#[derive(Debug)]
pub struct Run {
    title: String,
    id: u64,
    agent: Arc<Agent>,
    answers: Answers,
    /// Consumed output that has not been reported to the agent yet.
    taken: usize,
    patience: Duration,
    evidence: Evidence,
    stderr: String,
    exit: Option<Exit>,
}

impl Run {
    pub(super) fn start(
        guest: &str,
        agent: Arc<Agent>,
        program: Program,
        patience: Duration,
        evidence: Evidence,
    ) -> anyhow::Result<Run> {
        let title = format!("{guest}: {}", program.argv.join(OsStr::new(" ")).to_string_lossy());
        let (id, answers) = agent.start(program).with_context(|| title.clone())?;
        Ok(Run { title, id, agent, answers, taken: 0, patience, evidence, stderr: String::new(), exit: None })
    }

    /// Sets how long to wait for each further event.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Returns the next line of its standard output.
    pub fn line(&mut self) -> anyhow::Result<String> {
        match self.next_line() {
            Ok(Some(line)) => Ok(line),
            Ok(None) => self.fail(anyhow!("ended with {} and said no more", self.how_it_ended())),
            Err(error) => self.fail(error),
        }
    }

    /// Returns the next line of its standard output, parsed as a JSON object.
    pub fn answer(&mut self) -> anyhow::Result<Value> {
        let line = self.line()?;
        match serde_json::from_str(&line) {
            Ok(value) => Ok(value),
            Err(_) => self.fail(anyhow!("said what is not JSON: {}", start_of(&line))),
        }
    }

    /// Returns the text of `key` in the next line of its standard output.
    pub fn answer_text(&mut self, key: &str) -> anyhow::Result<String> {
        let answer = self.answer()?;
        match answer[key].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => self.fail(anyhow!("said {answer}, with no {key:?}")),
        }
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) -> anyhow::Result<()> {
        self.agent.tell(self.id, Verb::Stdin(format!("{line}\n"))).with_context(|| self.title.clone())
    }

    /// Closes its standard input.
    pub fn close_stdin(&mut self) -> anyhow::Result<()> {
        self.agent.tell(self.id, Verb::Eof {}).with_context(|| self.title.clone())
    }

    /// Sends it a signal.
    pub fn kill(&mut self, signal: i32) -> anyhow::Result<()> {
        self.agent.tell(self.id, Verb::Kill(signal)).with_context(|| self.title.clone())
    }

    /// Waits for its end, however it ends. Unread output is lost.
    pub fn wait(&mut self) -> anyhow::Result<Exit> {
        loop {
            match self.next_line() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(self.how_it_ended()),
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Waits for its end, which must be a success, and returns the rest of its output.
    pub fn finish_text(&mut self) -> anyhow::Result<Vec<String>> {
        let (mut lines, mut said) = (Vec::new(), 0);
        loop {
            match self.next_line() {
                Ok(Some(_)) if said > ALL => return self.fail(anyhow!("has said more than {ALL} bytes")),
                Ok(Some(line)) => {
                    said += line.len() + size_of::<String>();
                    lines.push(line);
                }
                Ok(None) if self.how_it_ended() == Exit::Code(0) => return Ok(lines),
                Ok(None) => return self.fail(anyhow!("ended with {}", self.how_it_ended())),
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Waits for its end, which must be a success, and returns the rest of its output as JSON
    /// objects.
    pub fn finish(&mut self) -> anyhow::Result<Vec<Value>> {
        let lines = self.finish_text()?;
        let values: Result<_, _> = lines.iter().map(|line| serde_json::from_str(line)).collect();
        match values {
            Ok(values) => Ok(values),
            Err(_) => self.fail(anyhow!("said what is not JSON: {}", start_of(&lines.join("\n")))),
        }
    }

    /// Returns the end of its standard error so far, unescaped.
    pub fn stderr(&self) -> &str {
        &self.stderr
    }

    /// Waits for the next line of its standard output, or its end, for `limit` from now and from
    /// each line of its standard error.
    pub fn hear(&mut self, limit: Duration) -> anyhow::Result<Heard> {
        self.hear_within(limit).or_else(|error| self.fail(error))
    }

    /// Returns the next line of output, or `None` after the program's end.
    fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        match self.hear_within(self.patience)? {
            Heard::Line(line) => Ok(Some(line)),
            Heard::End(_) => Ok(None),
            Heard::Nothing => bail!("no word for {:?}", self.patience),
        }
    }

    fn hear_within(&mut self, limit: Duration) -> anyhow::Result<Heard> {
        if let Some(exit) = self.exit {
            return Ok(Heard::End(exit));
        }
        loop {
            let word = self.answers.recv_timeout(limit);
            if let Ok(what @ (What::Stdout(_) | What::Stderr(_))) = &word {
                // If the machine is gone, the next event reports it.
                let _ = self.agent.taken(self.id, what, &mut self.taken);
            }
            match word {
                Ok(What::Stdout(line)) => return Ok(Heard::Line(line)),
                Ok(What::Stderr(line)) => self.complain(&[&line, "\n"]),
                Ok(What::Exit(exit)) => {
                    self.exit = Some(exit);
                    return Ok(Heard::End(exit));
                }
                Ok(What::Refused(reason)) => self.complain(&["(agent: ", &reason, ")\n"]),
                Ok(What::Error(reason)) => bail!("{reason}"),
                Ok(What::Ready { .. } | What::Data(_) | What::Took(_)) => {}
                Ok(What::OutBytes(_) | What::ErrBytes(_)) => bail!("said bytes where lines were asked for"),
                Err(RecvTimeoutError::Timeout) => return Ok(Heard::Nothing),
                Err(RecvTimeoutError::Disconnected) => bail!("its machine ended or rebooted"),
            }
        }
    }

    /// Keeps the end of its standard error.
    fn complain(&mut self, parts: &[&str]) {
        self.stderr.extend(parts.iter().copied());
        if self.stderr.len() > 2 * STDERR {
            let mut start = self.stderr.len() - STDERR;
            while !self.stderr.is_char_boundary(start) {
                start += 1;
            }
            self.stderr.replace_range(..start, "[the beginning is left out] ");
        }
    }

    /// Used only after the end.
    fn how_it_ended(&self) -> Exit {
        self.exit.unwrap_or(Exit::Code(0))
    }

    fn fail<T>(&self, error: anyhow::Error) -> anyhow::Result<T> {
        let mut error = error.context(self.title.clone());
        if !self.stderr.is_empty() {
            error = anyhow!("{error:#}\n--- its standard error ---\n{}", plain(self.stderr.trim_end()));
        }
        self.evidence.with(Err(error))
    }
}

/// Returns as much of a program's output as an error can hold.
fn start_of(text: &str) -> String {
    const QUOTED: usize = 1000;
    let mut start: String = text.chars().take(QUOTED).collect();
    if start.len() < text.len() {
        start.push_str("...");
    }
    format!("{start:?}")
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.agent.abandon(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    fn run(script: &str) -> Run {
        let (host, guest) = UnixStream::pair().unwrap();
        let input = BufReader::new(guest.try_clone().unwrap());
        thread::spawn(move || hamlyn_agent::serve::serve(input, guest, "vm0").unwrap());
        let argv = ["sh", "-c", script].map(Into::into).to_vec();
        let program = Program { argv, stdin: true, ..Program::default() };
        let agent = Arc::new(Agent::new("vm0", host, || None).unwrap());
        // Events of a run before "ready" would count as those of an earlier boot.
        agent.wait_for_boot(0, Duration::from_secs(20)).unwrap();
        Run::start("vm0", agent, program, Duration::from_secs(20), Evidence::default()).unwrap()
    }

    #[test]
    fn output_and_input_can_alternate() {
        let mut echo = run(r#"echo '{"ticket":"t1"}'; read peer; echo "{\"peer\":\"$peer\"}""#);
        assert_eq!(echo.answer_text("ticket").unwrap(), "t1");
        echo.say("t2").unwrap();
        assert_eq!(echo.finish().unwrap(), [serde_json::json!({ "peer": "t2" })]);
        assert_eq!(echo.wait().unwrap(), Exit::Code(0), "the end can be asked for again");
    }

    #[test]
    fn failure_shows_standard_error() {
        let error = run("echo bad ticket >&2; exit 2").finish().unwrap_err().to_string();
        assert!(error.contains("vm0: sh -c"), "{error}");
        assert!(error.contains("ended with exit status 2"), "{error}");
        assert!(error.ends_with("--- its standard error ---\nbad ticket"), "{error}");
    }

    #[test]
    fn missing_line_is_an_error() {
        let error = run("true").line().unwrap_err().to_string();
        assert!(error.contains("said no more"), "{error}");
        let mut silent = run("sleep 1000");
        silent.set_patience(Duration::from_millis(20));
        assert!(silent.line().unwrap_err().to_string().contains("no word for 20ms"));
        silent.set_patience(Duration::from_secs(20));
        silent.kill(9).unwrap();
        assert_eq!(silent.wait().unwrap(), Exit::Signal(9));
    }

    #[test]
    fn errors_show_escaped_and_bounded_output() {
        let escape = run(r"printf '\033[2Jred\n' >&2; exit 1").finish().unwrap_err().to_string();
        assert!(escape.ends_with("\n\\x1b[2Jred"), "{escape}");
        let mut chatter =
            run("head -c 3000000 /dev/zero | tr '\\0' x | fold -w 70 >&2; echo >&2; echo end >&2; exit 1");
        let error = chatter.finish().unwrap_err().to_string();
        assert!(error.len() < 300_000 && error.ends_with("\nend"), "{} bytes", error.len());
        let endless = run("yes").finish_text().unwrap_err().to_string();
        assert!(endless.contains("has said more than"), "{endless}");
    }
}
