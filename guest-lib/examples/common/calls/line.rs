//! A line: one stream in each direction, with frames on them. All operations but the final close
//! are non-blocking.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use hamlyn::protocol::stream::{StreamReceiver, StreamSender};
use hamlyn::{Card, Manager, Seed};

use super::frame::{Frame, Kind};
use crate::Outcome;
use crate::meet::{Door, MeetOption, Met, Watch};

/// Why a line is unusable.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The peer left gracefully.
    #[error("it has closed")]
    Closed,
    /// For example [`hamlyn::Error::PeerLost`], with a reason; [`hamlyn::Error::Malformed`].
    #[error(transparent)]
    Failed(#[from] hamlyn::Error),
}

type Result<T, E = Lost> = std::result::Result<T, E>;

/// One end.
pub(super) struct Line {
    sender: StreamSender,
    receiver: StreamReceiver,
    watch: Option<Watch>,
    /// Received bytes of incomplete frames.
    arriving: Vec<u8>,
    /// Bytes to send, and the number of them already sent.
    leaving: Vec<u8>,
    gone: usize,
}

impl Line {
    /// Creates the calling end.
    pub(super) fn connect(
        meet: &MeetOption,
        card: &Card,
        manager: &Manager,
        to: (u32, &str),
    ) -> Outcome<Self> {
        let receiver = StreamReceiver::create(manager)?;
        let met = meet.connect(card, to, &receiver.make_seed()?.to_bytes(), Duration::ZERO)?;
        Self::new(manager, receiver, met)
    }

    /// Creates the called end, if a client has connected.
    pub(super) fn accept(door: &Door, manager: &Manager) -> Outcome<Option<Self>> {
        let mut receiver = None;
        let met = door.admit(Duration::ZERO, |_| {
            let own = receiver.insert(StreamReceiver::create(manager)?);
            Ok(own.make_seed()?.to_bytes().to_vec())
        })?;
        met.zip(receiver).map(|(met, receiver)| Self::new(manager, receiver, met)).transpose()
    }

    fn new(manager: &Manager, receiver: StreamReceiver, met: Met) -> Outcome<Self> {
        let sender = StreamSender::from_seed(manager, &Seed::from_bytes(&met.told)?)?;
        Ok(Self { sender, receiver, watch: met.watch, arriving: Vec::new(), leaving: Vec::new(), gone: 0 })
    }

    /// Queues a frame.
    pub(super) fn post(&mut self, number: u32, kind: &Kind, body: &[u8]) -> hamlyn::Result<()> {
        Frame::append_to(number, kind, body, &mut self.leaving)
    }

    /// Sends as much as possible now. Returns whether nothing is left.
    pub(super) fn push(&mut self) -> Result<bool> {
        if self.leaving.is_empty() {
            return Ok(true);
        }
        while self.gone < self.leaving.len() {
            match self.sender.try_send(&self.leaving[self.gone..]) {
                Ok(accepted) => self.gone += accepted,
                Err(error) if error.is_would_block() => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        match self.sender.try_flush() {
            Err(error) if error.is_would_block() => return Ok(false),
            flushed => flushed?,
        }
        (self.leaving, self.gone) = (Vec::new(), 0);
        Ok(true)
    }

    /// Returns a file that becomes readable when the peer has ended, if there is such a file.
    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().and_then(Watch::file)
    }

    /// Checks whether the operating system has reported the peer's end. Data that arrived before is
    /// still received.
    pub(super) fn look_for_end(&mut self) -> Result<()> {
        if let Some(loss) = self.watch.as_mut().map_or(Ok(None), Watch::loss)? {
            self.receiver.peer_lost(loss);
            self.sender.peer_lost(loss);
        }
        Ok(())
    }

    /// Ends the outgoing stream, after everything that was posted is sent.
    pub(super) fn close(mut self, timeout: Duration) -> Result<()> {
        self.sender.set_timeout(Some(timeout));
        self.sender.send(&self.leaving[self.gone..])?;
        self.sender.close(Some(timeout))?;
        Ok(self.watch.map_or(Ok(()), Watch::close)?)
    }

    /// Returns the next frame once all of it has arrived. Reads no further: what is not taken stays
    /// in the stream, and its sender waits.
    ///
    /// # Errors
    /// [`Lost`].
    pub(super) fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(frame) = Frame::take_from(&mut self.arriving)? {
                return Ok(Some(frame));
            }
            let number = match self.receiver.try_receive() {
                Ok(Some(record)) => {
                    let old = self.arriving.len();
                    self.arriving.resize(old + record.len(), 0);
                    record.read(0, &mut self.arriving[old..])?;
                    record.number()
                }
                Ok(None) => return Err(Lost::Closed),
                Err(error) if error.is_would_block() => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            self.receiver.release(number)?;
        }
    }
}
