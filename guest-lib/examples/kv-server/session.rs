//! One client of the server, independent of the transport.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};

use crate::news::News;
use crate::wire::{self, Frames, MAX_BESIDES, Request, Status};

/// The transport between a client and the server. Its calls are non-blocking: they fail with
/// `WouldBlock` instead of waiting.
pub(crate) trait Stream: Read + Write {
    /// Ends the outgoing stream after everything written.
    fn close(&mut self) -> io::Result<()>;

    /// Makes `news` report this client's number once this has come, or the peer has ended. Returns
    /// `true` if that is already the case: try again then, without a wait. The only client may poll
    /// for a while; with others, that would delay them.
    fn arm(&mut self, number: u64, awaited: Awaited, is_only: bool, news: &News) -> io::Result<bool>;
}

/// What a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Bytes of the peer.
    Bytes,
    /// Room for this number of bytes.
    Room(usize),
}

/// The reason of an ordinary end by the client.
pub(crate) const CLOSED: &str = "closed";

/// Keys and their values.
pub(crate) type Store = BTreeMap<Vec<u8>, Vec<u8>>;

/// A client. It keeps one request or one answer in memory, and only the received part of the
/// request.
#[derive(Debug)]
pub(crate) struct Session<T> {
    pub(crate) stream: T,
    frames: Frames,
    answer: Vec<u8>,
    sent: usize,
    pub(crate) answered: u64,
    /// Set once no further request is read; the reason.
    last: Option<String>,
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request was answered; there may be another.
    Busy,
    /// Waits for a request, or for room for an answer.
    Waits(Awaited),
    /// The client has ended.
    Over(String),
}

impl<T: Stream> Session<T> {
    /// Creates a client whose values have at most `value` bytes.
    pub(crate) fn new(stream: T, value: usize) -> Self {
        let frames = Frames::new(MAX_BESIDES + value);
        Self { stream, frames, answer: Vec::new(), sent: 0, answered: 0, last: None }
    }

    /// Does what is possible without waiting. An error ends only this client.
    pub(crate) fn step(&mut self, store: &mut Store) -> io::Result<Step> {
        // No request is read before the last answer is sent, so a client that takes no answers uses
        // no more memory.
        if !self.push()? {
            return Ok(Step::Waits(Awaited::Room(self.answer.len() - self.sent)));
        }
        if let Some(why) = &self.last {
            self.stream.close()?;
            return Ok(Step::Over(why.clone()));
        }
        match self.frames.next(&mut self.stream) {
            Ok(None) => self.last = Some(CLOSED.to_owned()),
            Ok(Some(frame)) => match Request::parse(&frame) {
                Ok(request) => self.serve(store, &request),
                Err(error) => self.refuse(&error),
            },
            Err(error) if error.kind() == ErrorKind::InvalidData => self.refuse(&error),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Step::Waits(Awaited::Bytes)),
            Err(error) => return Err(error),
        }
        Ok(Step::Busy)
    }

    fn serve(&mut self, store: &mut Store, request: &Request<'_>) {
        self.answer = match request {
            Request::Get { key } => match store.get(*key) {
                Some(value) => wire::answer(Status::Done, value),
                None => wire::answer(Status::NotFound, b""),
            },
            Request::Put { key, value } => {
                store.insert(key.to_vec(), value.to_vec());
                wire::answer(Status::Done, b"")
            }
        };
        self.answered += 1;
    }

    /// Answers a malformed request with the reason. This is the last answer.
    fn refuse(&mut self, error: &io::Error) {
        self.answer = wire::answer(Status::Refused, error.to_string().as_bytes());
        self.last = Some(format!("malformed: {error}"));
    }

    /// Sends what is left of the answer. Returns whether all of it has been sent.
    fn push(&mut self) -> io::Result<bool> {
        while self.sent < self.answer.len() {
            match now(self.stream.write(&self.answer[self.sent..]))? {
                Some(length) => self.sent += length,
                None => return Ok(false),
            }
        }
        (self.answer, self.sent) = (Vec::new(), 0);
        Ok(true)
    }
}

/// Maps `WouldBlock` to `None`.
pub(crate) fn now<R>(result: io::Result<R>) -> io::Result<Option<R>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
