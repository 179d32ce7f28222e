//! One client of the server, whatever carries its bytes.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};

use crate::wire::{self, Frames, MAX_BESIDES, Request, Status};

/// What a client and the server have between them. No call waits: where one would have to it says
/// `WouldBlock`.
pub(crate) trait Stream: Read + Write {
    /// Says that no more comes, behind all that was written.
    fn close(&mut self) -> io::Result<()>;

    /// Whether the last `WouldBlock` of a write was for room that nobody tells of.
    fn is_behind(&self) -> bool {
        false
    }

    /// Somebody has told of the peer's end: a read or a flush says why.
    fn look_for_end(&self) {}
}

/// Why a client has ended that did so by itself.
pub(crate) const CLOSED: &str = "closed";

/// Keys and their values.
pub(crate) type Store = BTreeMap<Vec<u8>, Vec<u8>>;

/// A client. It has one request or one answer in memory, and of the request only what has come.
#[derive(Debug)]
pub(crate) struct Session<T> {
    pub(crate) stream: T,
    frames: Frames,
    answer: Vec<u8>,
    sent: usize,
    pub(crate) answered: u64,
    /// No request comes any more, and why.
    last: Option<String>,
}

/// What a step was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request was answered; there may be another.
    Busy,
    /// There is no request.
    Idle,
    /// The client does not take its answer.
    Stuck,
    /// It has ended.
    Over(String),
}

impl<T: Stream> Session<T> {
    /// A client whose values are no longer than so many bytes.
    pub(crate) fn new(stream: T, value: usize) -> Self {
        let frames = Frames::new(MAX_BESIDES + value);
        Self { stream, frames, answer: Vec::new(), sent: 0, answered: 0, last: None }
    }

    /// Does what can be done now. An error is the end of this client, and of no other.
    pub(crate) fn step(&mut self, store: &mut Store) -> io::Result<Step> {
        // No request is read before the last answer has gone: so a client that takes none costs no
        // more memory.
        if !self.push()? {
            return Ok(Step::Stuck);
        }
        if let Some(why) = &self.last {
            let closed = self.stream.close();
            return Ok(if now(closed)?.is_some() { Step::Over(why.clone()) } else { Step::Stuck });
        }
        match self.frames.next(&mut self.stream) {
            Ok(None) => self.last = Some(CLOSED.to_owned()),
            Ok(Some(frame)) => match Request::parse(&frame) {
                Ok(request) => self.serve(store, &request),
                Err(error) => self.refuse(&error),
            },
            Err(error) if error.kind() == ErrorKind::InvalidData => self.refuse(&error),
            Err(error) => {
                now::<()>(Err(error))?;
                // Nothing has come, and perhaps nothing will: this tells.
                now(self.stream.flush())?;
                return Ok(Step::Idle);
            }
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

    /// What it says makes no sense. It is told so, and nothing else any more.
    fn refuse(&mut self, error: &io::Error) {
        self.answer = wire::answer(Status::Refused, error.to_string().as_bytes());
        self.last = Some(format!("malformed: {error}"));
    }

    /// Sends what there is of the answer. Whether all of it has gone.
    fn push(&mut self) -> io::Result<bool> {
        while self.sent < self.answer.len() {
            match now(self.stream.write(&self.answer[self.sent..]))? {
                Some(length) => self.sent += length,
                None => return Ok(false),
            }
        }
        // Held back, it might be what the client waits for.
        if self.sent > 0 && now(self.stream.flush())?.is_none() {
            return Ok(false);
        }
        (self.answer, self.sent) = (Vec::new(), 0);
        Ok(true)
    }
}

/// None: not now.
pub(crate) fn now<R>(result: io::Result<R>) -> io::Result<Option<R>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
