//! The protocol between host and agent: one JSON object per line, in both directions.
//!
//! ```text
//! host                             agent
//!                                  {"ready":{"version":"0.9.0","name":"vm0"}}
//! {"id":1,"run":{"argv":["cat"],"uid":1000,"stdin":true}}
//! {"id":1,"stdin":"hello\n"}       {"id":1,"stdout":"hello"}
//! {"id":1,"eof":{}}                {"id":1,"exit":{"code":0}}
//! {"id":2,"read":"/proc/modules"}  {"id":2,"data":"hamlyn 49152 0 - Live ...\n"}
//! {"id":9,"kill":9}                {"id":9,"refused":"run 9 is not running"}
//! ```
//!
//! A word of `argv` that is not UTF-8 is an object with its bytes: `{"bytes":"/w=="}`.
//!
//! A program may run `raw`. Its output is then sent as bytes, in `outbytes` and `errbytes`, encoded
//! in base64 and not split at lines. It may have a `window`: the agent makes the program wait once
//! that much of its output has not been taken by the host (`more`).
//!
//! The host chooses the ids. An id names one run until its `exit` or `error` event, which is its
//! last. A `refused` request leaves the run unchanged.

use std::collections::BTreeMap;
use std::ffi::OsString;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The longest line that the agent reads, in bytes without the line feed.
pub const MAX_REQUEST: usize = 64 << 10;

/// The longest piece of a program's output in one event, in bytes. Longer lines arrive as several
/// events.
pub const MAX_OUTPUT: usize = 64 << 10;

/// The longest piece of input in one request, in bytes. Its base64 encoding fits [`MAX_REQUEST`].
pub const MAX_INPUT: usize = 32 << 10;

/// Maximum number of pieces of input in transit to a program; more are refused.
pub const INPUT_QUEUE: usize = 64;

/// The cost of an event in a window, besides its bytes: the memory to keep it.
pub const EVENT_COST: usize = 64;

/// The longest file that the agent returns, in bytes.
pub const MAX_FILE: usize = 256 << 10;

/// The longest line that the host reads: the longest file, with every byte escaped as `\u00xx`, and
/// the rest.
pub const MAX_EVENT: usize = 6 * MAX_FILE + 1024;

/// The virtio-serial port's name, on QEMU's command line and under `/dev/virtio-ports` in the
/// guest.
pub const PORT: &str = "hamlyn.agent";

/// The agent's port of a vsock device. Only root can listen at one below 1024.
pub const VSOCK_PORT: u32 = 1000;

/// A line from the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Identifies the run or the question, also in every event that answers it.
    pub id: u64,
    /// The action.
    #[serde(flatten)]
    pub verb: Verb,
}

/// A request's action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Starts a program.
    Run(Program),
    /// Writes this text unchanged to the program's standard input.
    Stdin(String),
    /// Writes these bytes to the program's standard input.
    Bytes(Bytes),
    /// Reports how much output was taken, and extends the program's window by that.
    More(usize),
    /// Closes the program's standard input.
    Eof {},
    /// Sends this signal to the program and everything it started.
    Kill(i32),
    /// Reads a file of the guest, as the agent's own user.
    Read(String),
}

/// A program to start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program, looked up in `PATH`, and its arguments.
    #[serde(with = "words")]
    pub argv: Vec<OsString>,
    /// Variables added to the agent's own environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The user and group to run as; the agent's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Whether it starts in its user's home, with matching `HOME` and `USER`; otherwise in the
    /// agent's working directory.
    #[serde(default)]
    pub home: bool,
    /// Whether a pipe is kept for [`Verb::Stdin`]; otherwise standard input is empty.
    #[serde(default)]
    pub stdin: bool,
    /// Whether its output is reported as bytes; otherwise as lines of text.
    #[serde(default)]
    pub raw: bool,
    /// Maximum output before [`Verb::More`]; unlimited if absent. See [`What::cost`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
}

/// A program's words in JSON: as text if they are UTF-8, otherwise as bytes.
mod words {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Bytes;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Word {
        Text(String),
        Other { bytes: Bytes },
    }

    pub(super) fn serialize<S: Serializer>(words: &[OsString], to: S) -> Result<S::Ok, S::Error> {
        let word = |word: &OsString| match word.to_str() {
            Some(text) => Word::Text(text.to_owned()),
            None => Word::Other { bytes: Bytes(word.clone().into_vec()) },
        };
        to.collect_seq(words.iter().map(word))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<OsString>, D::Error> {
        let word = |word| match word {
            Word::Text(text) => OsString::from(text),
            Word::Other { bytes } => OsString::from_vec(bytes.0),
        };
        Ok(Vec::<Word>::deserialize(from)?.into_iter().map(word).collect())
    }
}

/// Bytes, in JSON as base64.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub Vec<u8>);

impl TryFrom<String> for Bytes {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Bytes, base64::DecodeError> {
        STANDARD.decode(text).map(Bytes)
    }
}

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> String {
        STANDARD.encode(bytes.0)
    }
}

/// A line from the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The request that this belongs to; `None` for [`What::Ready`] and for a line that could not
    /// be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// An event in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The agent has started; sent once per boot.
    Ready {
        /// The agent's version.
        version: String,
        /// The guest's host name.
        name: String,
    },
    /// A line of a program's standard output, without its line feed.
    Stdout(String),
    /// A line of a program's standard error, without its line feed.
    Stderr(String),
    /// A piece of a raw program's standard output.
    OutBytes(Bytes),
    /// A piece of a raw program's standard error.
    ErrBytes(Bytes),
    /// The program was passed this many bytes of its input, one piece: there is room for another.
    Took(usize),
    /// The program has ended, and all its output has been sent.
    Exit(Exit),
    /// The contents of a file.
    Data(String),
    /// The program could not be started or the file not read. Nothing else changed.
    Error(String),
    /// A request about a run was refused. The run, if there is one, continues.
    Refused(String),
}

impl What {
    /// Returns the event's cost in a program's window.
    pub fn cost(&self) -> usize {
        EVENT_COST
            + match self {
                What::Stdout(text) | What::Stderr(text) | What::Data(text) => text.len(),
                What::OutBytes(bytes) | What::ErrBytes(bytes) => bytes.0.len(),
                What::Error(text) | What::Refused(text) => text.len(),
                What::Ready { .. } | What::Took(_) | What::Exit(_) => 0,
            }
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// By itself, with this exit status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit status {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn request(line: &str) -> Request {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn requests_look_as_documented() {
        let program =
            Program { argv: vec!["cat".into()], uid: Some(1000), stdin: true, ..Program::default() };
        let run = Request { id: 1, verb: Verb::Run(program) };
        assert_eq!(request(r#"{"id":1,"run":{"argv":["cat"],"uid":1000,"stdin":true}}"#), run);
        assert_eq!(request(&serde_json::to_string(&run).unwrap()), run);
        assert_eq!(request(r#"{"id":1,"eof":{}}"#).verb, Verb::Eof {});
        assert_eq!(request(r#"{"id":1,"kill":9}"#).verb, Verb::Kill(9));
        assert_eq!(request(r#"{"id":1,"stdin":"x\n"}"#).verb, Verb::Stdin("x\n".into()));
        assert_eq!(request(r#"{"id":1,"bytes":"AP8="}"#).verb, Verb::Bytes(Bytes(vec![0, 255])));
        assert_eq!(request(r#"{"id":1,"more":4096}"#).verb, Verb::More(4096));
    }

    #[test]
    fn words_that_are_not_utf8_pass_whole() {
        let argv = vec!["cat".into(), OsString::from_vec(vec![b'a', 0xff])];
        let run = Request { id: 1, verb: Verb::Run(Program { argv, ..Program::default() }) };
        let line = serde_json::to_string(&run).unwrap();
        assert!(line.contains(r#""argv":["cat",{"bytes":"Yf8="}]"#), "{line}");
        assert_eq!(request(&line), run);
    }

    #[test]
    fn a_request_needs_an_id_and_one_verb() {
        for line in [
            r#"{"id":1,"bytes":"?"}"#,
            "{}",
            r#"{"id":1}"#,
            r#"{"kill":9}"#,
            r#"{"id":-1,"kill":9}"#,
            r#"{"id":1,"dance":2}"#,
        ] {
            assert!(serde_json::from_str::<Request>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn events_look_as_documented() {
        let text = |id, what| serde_json::to_string(&Event { id, what }).unwrap();
        let ready = What::Ready { version: "1".into(), name: "vm0".into() };
        assert_eq!(text(None, ready), r#"{"ready":{"version":"1","name":"vm0"}}"#);
        assert_eq!(text(Some(1), What::Exit(Exit::Code(0))), r#"{"id":1,"exit":{"code":0}}"#);
        assert_eq!(text(Some(1), What::Exit(Exit::Signal(9))), r#"{"id":1,"exit":{"signal":9}}"#);
        assert_eq!(text(Some(1), What::OutBytes(Bytes(vec![0, 255]))), r#"{"id":1,"outbytes":"AP8="}"#);
        assert_eq!(text(Some(1), What::Took(7)), r#"{"id":1,"took":7}"#);
        assert_eq!(text(Some(1), What::Stdout("a".into())), r#"{"id":1,"stdout":"a"}"#);
    }
}
