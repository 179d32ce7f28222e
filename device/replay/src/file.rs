//! Recordings as files: an LZ4 frame with a line of JSON, and then the steps.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};

use hamlyn_trace::hello::CardName;
use hamlyn_trace::record::Record;
use lz4_flex::frame::{FrameDecoder, FrameEncoder};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zerocopy::{FromZeros, IntoBytes};

use crate::step::{Returned, Step, StepKind};

/// Version of [`Header`] and of the steps.
pub const VERSION: u32 = 1;
/// Longest header in bytes.
const LONGEST_HEADER: u64 = 256 << 10;
/// Most bytes of a step.
const LONGEST_STEP: u32 = 256 << 10;
/// Most steps of a call, and most bytes in them: a card's call is bounded.
const MOST_STEPS: usize = 1 << 20;
const MOST_BYTES: usize = 64 << 20;

/// What a recording says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// The card, with its settings.
    pub card: CardName,
}

/// A call of the card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its number in the recording, from 1.
    pub number: u64,
    /// The call.
    pub step: Step,
    /// What the card saw and did meanwhile.
    pub steps: Vec<Step>,
    /// What it returned. `None` if it has no return, or if the card's process ended in the call.
    pub returned: Option<Returned>,
}

/// A file that is not a recording.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It does not begin like a recording.
    #[error("is not a recording: {0}")]
    Header(String),
    /// It has another version.
    #[error("has version {0} of recordings (this program: {VERSION})")]
    Version(u32),
    /// A step is too long.
    #[error("step {step} has {bytes} bytes (limit {LONGEST_STEP})")]
    Long {
        /// Number of the step, from 1.
        step: u64,
        /// Its bytes.
        bytes: u32,
    },
    /// A step has an unknown kind, or comes where it cannot.
    #[error("step {step} has the kind {kind}, which cannot come there")]
    Kind {
        /// Number of the step, from 1.
        step: u64,
        /// Its kind.
        kind: u8,
    },
    /// A call has too many steps, or too many bytes in them.
    #[error("call {0} has more than {MOST_STEPS} steps or {MOST_BYTES} bytes")]
    Endless(u64),
}

/// Writes a recording.
#[derive(Debug)]
pub struct RecordingWriter<W: Write>(FrameEncoder<W>);

impl<W: Write> RecordingWriter<W> {
    /// Begins a recording of this card.
    pub fn new(out: W, card: &CardName) -> io::Result<Self> {
        let mut encoder = FrameEncoder::new(out);
        let header = Header { version: VERSION, card: card.clone() };
        encoder.write_all(&serde_json::to_vec(&header)?)?;
        encoder.write_all(b"\n")?;
        // So that a recording whose writer was killed can be read, as far as it goes.
        encoder.flush()?;
        Ok(Self(encoder))
    }

    /// Adds steps.
    pub fn push(&mut self, steps: &[u8]) -> io::Result<()> {
        self.0.write_all(steps)
    }

    /// Adds a call.
    pub fn push_call(&mut self, call: &Call) -> io::Result<()> {
        for step in [&call.step].into_iter().chain(&call.steps) {
            self.push(step.record.as_bytes())?;
            self.push(&step.bytes)?;
            self.push(&[0; 8][..step.bytes.len().next_multiple_of(8) - step.bytes.len()])?;
        }
        call.returned.map_or(Ok(()), |returned| self.push(returned.to_record().as_bytes()))
    }

    /// Ends the recording, and returns what it was written to.
    pub fn finish(self) -> io::Result<W> {
        self.0.finish().map_err(io::Error::other)
    }
}

/// Reads a recording, call by call.
pub struct RecordingReader<R: Read> {
    input: BufReader<FrameDecoder<R>>,
    header: Header,
    calls: u64,
    steps: u64,
    /// A step that belongs to the next call.
    next: Option<Step>,
    is_cut: bool,
}

impl<R: Read> RecordingReader<R> {
    /// Opens a recording.
    pub fn new(input: R) -> Result<Self, FileError> {
        let mut input = BufReader::new(FrameDecoder::new(input));
        let mut line = Vec::new();
        let bad = |error: &dyn ToString| FileError::Header(error.to_string());
        input.by_ref().take(LONGEST_HEADER).read_until(b'\n', &mut line).map_err(|error| bad(&error))?;
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_slice(&line).map_err(|error| bad(&error))?;
        if version != VERSION {
            return Err(FileError::Version(version));
        }
        let header = serde_json::from_slice(&line).map_err(|error| bad(&error))?;
        Ok(Self { input, header, calls: 0, steps: 0, next: None, is_cut: false })
    }

    /// Returns the recorded card.
    pub fn card(&self) -> &CardName {
        &self.header.card
    }

    /// Returns the settings of the recorded card.
    pub fn settings(&self) -> &BTreeMap<String, u32> {
        &self.header.card.settings
    }

    /// Whether the recording ends in the middle: it was cut off, or its reader did not keep up.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the next call.
    pub fn next_call(&mut self) -> Result<Option<Call>, FileError> {
        let Some(step) = self.take()? else { return Ok(None) };
        if !step.kind.is_call() {
            return Err(FileError::Kind { step: self.steps, kind: step.kind as u8 });
        }
        self.calls += 1;
        let mut call = Call { number: self.calls, step, steps: Vec::new(), returned: None };
        let mut bytes = 0;
        while call.step.kind.returns() {
            let Some(step) = self.take()? else { break };
            if step.kind == StepKind::Return {
                call.returned = Some(Returned::of_record(&step.record));
                break;
            }
            if step.kind.is_call() {
                // The card panicked, and another process went on.
                self.next = Some(step);
                break;
            }
            bytes += step.bytes.len();
            if call.steps.len() == MOST_STEPS || bytes > MOST_BYTES {
                return Err(FileError::Endless(call.number));
            }
            call.steps.push(step);
        }
        Ok(Some(call))
    }

    fn take(&mut self) -> Result<Option<Step>, FileError> {
        if let Some(step) = self.next.take() {
            return Ok(Some(step));
        }
        let mut record = Record::new_zeroed();
        if self.input.fill_buf().is_ok_and(<[u8]>::is_empty) || !self.fill(record.as_mut_bytes())? {
            return Ok(None);
        }
        self.steps += 1;
        if record.length > LONGEST_STEP {
            return Err(FileError::Long { step: self.steps, bytes: record.length });
        }
        let kind =
            StepKind::of(record.kind).ok_or(FileError::Kind { step: self.steps, kind: record.kind })?;
        let length = record.length as usize;
        let mut bytes = vec![0; length.next_multiple_of(8)];
        if kind == StepKind::Broken || !self.fill(&mut bytes)? {
            self.is_cut = true;
            return Ok(None);
        }
        bytes.truncate(length);
        Ok(Some(Step { kind, record, bytes }))
    }

    /// Fills a buffer. Returns `false` if the file ends before.
    fn fill(&mut self, into: &mut [u8]) -> Result<bool, FileError> {
        match self.input.read_exact(into) {
            Ok(()) => Ok(true),
            // A recorder that was killed leaves a frame without an end.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}
