//! A line: a channel, and the frames on it. All operations but the final close are non-blocking.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use hamlyn::channel::{Channel, Receiver, Sender};
use hamlyn::{Error, Polling};

use super::frame::{Frame, Kind};

/// Why a line is unusable.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The peer left gracefully.
    #[error("it has closed")]
    Closed,
    /// For example [`hamlyn::Error::PeerLost`], with a reason; [`hamlyn::Error::Malformed`].
    #[error(transparent)]
    Failed(#[from] Error),
}

type Result<T, E = Lost> = std::result::Result<T, E>;

/// One end.
pub(super) struct Line {
    sender: Sender,
    receiver: Receiver,
    /// Received bytes of incomplete frames.
    arriving: Vec<u8>,
    /// Bytes to send, and the number of them already sent.
    leaving: Vec<u8>,
    gone: usize,
}

impl Line {
    pub(super) fn over(channel: Channel) -> Self {
        let Channel { sender, receiver } = channel;
        Self { sender, receiver, arriving: Vec::new(), leaving: Vec::new(), gone: 0 }
    }

    /// Sets how long [`Line::arm`] polls.
    pub(super) fn set_polling(&mut self, polling: Polling) {
        self.sender.set_polling(polling);
        self.receiver.set_polling(polling);
    }

    /// Queues a frame.
    pub(super) fn post(&mut self, number: u32, kind: &Kind, body: &[u8]) -> hamlyn::Result<()> {
        Frame::append_to(number, kind, body, &mut self.leaving)
    }

    /// Sends as much as possible now. Returns whether nothing is left.
    pub(super) fn push(&mut self) -> Result<bool> {
        while self.gone < self.leaving.len() {
            let length = self.next_length();
            match self.sender.try_send(&self.leaving[self.gone..self.gone + length]) {
                Ok(()) => self.gone += length,
                Err(error) if error.is_would_block() => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        (self.leaving, self.gone) = (Vec::new(), 0);
        Ok(true)
    }

    /// Returns the length of the next message: all that is left, if it fits.
    fn next_length(&self) -> usize {
        (self.leaving.len() - self.gone).min(self.sender.longest())
    }

    /// Prepares a wait for room, if something is left to send, and for messages. Without
    /// `receives`, waits for messages only if nothing is left. Returns the files that report these
    /// and the peer's end, or `None` if there is something to do now.
    pub(super) fn arm(&mut self, receives: bool) -> Result<Option<Vec<BorrowedFd<'_>>>> {
        let (length, mut files) = (self.next_length(), Vec::new());
        if length > 0 {
            if self.sender.arm(length)? {
                return Ok(None);
            }
            files.push(self.sender.file()?);
        }
        if length == 0 || receives {
            if self.receiver.arm()? {
                return Ok(None);
            }
            files.push(self.receiver.file()?);
        }
        Ok(Some(files))
    }

    /// Closes the channel, after everything that was posted is sent.
    pub(super) fn close(mut self, timeout: Duration) -> Result<()> {
        while self.gone < self.leaving.len() {
            let length = self.next_length();
            self.sender.send_timeout(&self.leaving[self.gone..self.gone + length], timeout)?;
            self.gone += length;
        }
        Ok(self.sender.close_timeout(timeout)?)
    }

    /// Returns the next frame once all of it has arrived. Reads no further: what is not taken stays
    /// in the channel, and its sender waits.
    ///
    /// # Errors
    /// [`Lost`].
    pub(super) fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(frame) = Frame::take_from(&mut self.arriving)? {
                return Ok(Some(frame));
            }
            match self.receiver.try_recv() {
                Ok(Some(message)) if message.is_empty() => {
                    return Err(Error::Malformed("a message without bytes").into());
                }
                Ok(Some(message)) => {
                    let old = self.arriving.len();
                    self.arriving.resize(old + message.len(), 0);
                    message.read(0, &mut self.arriving[old..])?;
                }
                Ok(None) => return Err(Lost::Closed),
                Err(error) if error.is_would_block() => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
