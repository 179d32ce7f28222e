//! A client's conversation with a server.

use std::time::Duration;

use hamlyn::channel::Card;

use crate::Outcome;
use crate::end::{End, MAX_EXPRESS, Wait, max_size};
use crate::hello::{DEPTH, Hello, Wish};
use crate::word;

/// How client and server find each other.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Meeting {
    /// Host id of the peer
    #[arg(value_name = "HOST")]
    pub(crate) peer: Option<u32>,
    /// Name under which the peer listens and is found, instead of the tool's own name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Use memory that the two hosts share, with no card on the path. The answering side needs no
    /// option
    #[arg(long)]
    express: bool,
}

impl Meeting {
    /// Returns the name to meet under; `tools` is the default.
    pub(crate) fn name<'a>(&'a self, tools: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(tools)
    }

    /// Returns the size of the largest message.
    pub(crate) fn max_size(&self, card: &Card) -> usize {
        if self.express { MAX_EXPRESS } else { max_size(card) }
    }

    /// Fails if messages of this size cannot be sent.
    pub(crate) fn check(&self, card: &Card, size: usize) -> Outcome {
        let limit = self.max_size(card);
        if size > limit {
            return Err(format!("message size {size} is out of range (limit {limit})").into());
        }
        Ok(())
    }
}

pub(crate) struct Session {
    pub(crate) end: End,
    host: u32,
    timeout: Duration,
    /// How the client waits, and asks the server to wait.
    wait: Wait,
    /// Number of messages that each end may have in flight.
    depth: u8,
}

impl Session {
    /// Connects to a host's server, with room for messages of `size` bytes.
    pub(crate) fn open(
        card: &Card,
        (meeting, host, name): (&Meeting, u32, &str),
        size: usize,
        wait: Wait,
        timeout: Duration,
    ) -> Outcome<Self> {
        let mut end = End::connect(card, (host, name), size, meeting.express, timeout)?;
        end.set_wait(wait);
        Ok(Self { end, host, timeout, wait, depth: DEPTH as u8 })
    }

    /// Returns the session with another depth.
    pub(crate) fn with_depth(self, depth: u8) -> Self {
        Self { depth, ..self }
    }

    /// Returns the number of messages that may be in flight.
    pub(crate) fn depth(&self) -> u64 {
        self.depth.into()
    }

    /// Returns the time to wait for the peer.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Tells the server what follows, and how many messages of `size` bytes it has to send itself.
    /// Blocks until the server is ready.
    pub(crate) fn ask(&mut self, wish: Wish, size: usize, messages: u64) -> Outcome {
        let limit = self.end.room();
        if size > limit {
            return Err(format!("message size {size} is out of range (limit {limit})").into());
        }
        let hello = Hello { wish, wait: self.wait, depth: self.depth, size, messages };
        self.end.send(word::HELLO, &hello.to_bytes(), Some(self.timeout))?;
        while self.next_word()? != word::READY {}
        Ok(())
    }

    /// Returns the next word, in answer to a sent one.
    pub(crate) fn next_word(&mut self) -> Outcome<u32> {
        let received = self.end.receive(Some(self.timeout)).map(|received| received.map(|found| found.word));
        match received {
            Ok(Some(word)) => Ok(word),
            Ok(None) => Err(format!("host {} has closed the channel", self.host).into()),
            Err(error) if error.is_timed_out() => Err(self.silence().into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the error for a server that does not answer.
    pub(crate) fn silence(&self) -> String {
        format!("host {} does not answer within {:?}", self.host, self.timeout)
    }

    /// Ends the conversation with the server.
    pub(crate) fn close(self) -> Outcome {
        Ok(self.end.close(self.timeout)?)
    }
}
