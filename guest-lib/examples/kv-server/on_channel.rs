//! Clients by channels, over a card of any model.

use std::io::{self, Read, Write};
use std::time::Duration;

use hamlyn::Polling;
use hamlyn::channel::{Channel, Listener, Receiver, Sender};
use mio::Interest;

use crate::common::{Outcome, is_gone};
use crate::news::News;
use crate::server::{Door, Refused};
use crate::session::{Awaited, Stream};

/// Files of each client: four for each half, and its connection, which has two at a card's socket.
pub(crate) const FILES: u64 = 10;

/// How long a card may take to deliver the last bytes.
const CLOSING: Duration = Duration::from_millis(100);

/// A channel with non-blocking calls.
#[derive(Debug)]
pub(crate) struct OnChannel {
    /// `None` once it is closed.
    sender: Option<Sender>,
    receiver: Receiver,
    /// Whether the event loop watches the sender's file and the receiver's.
    watched: [bool; 2],
}

impl From<Channel> for OnChannel {
    fn from(Channel { sender, receiver }: Channel) -> Self {
        Self { sender: Some(sender), receiver, watched: [false; 2] }
    }
}

impl Read for OnChannel {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.receiver.try_read(to)?)
    }
}

/// What fits into a message is sent as one.
impl Write for OnChannel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(sender) = &mut self.sender else { return Ok(0) };
        let length = bytes.len().min(sender.longest());
        sender.try_send(&bytes[..length])?;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for OnChannel {
    fn close(&mut self) -> io::Result<()> {
        Ok(self.sender.take().map_or(Ok(()), |sender| sender.close_timeout(CLOSING))?)
    }

    fn arm(&mut self, number: u64, awaited: Awaited, is_only: bool, news: &News) -> io::Result<bool> {
        let Self { sender, receiver, watched: [sends, receives] } = self;
        let polling = if is_only { Polling::default() } else { Polling::NEVER };
        let (is_watched, file) = match (awaited, sender) {
            (Awaited::Room(length), Some(sender)) => {
                sender.set_polling(polling);
                if sender.arm(length.min(sender.longest()))? {
                    return Ok(true);
                }
                (sends, sender.file()?)
            }
            _ => {
                receiver.set_polling(polling);
                if receiver.arm()? {
                    return Ok(true);
                }
                (receives, receiver.file()?)
            }
        };
        if !std::mem::replace(is_watched, true) {
            news.watch(number, file, Interest::READABLE)?;
        }
        Ok(false)
    }
}

impl Door for Listener {
    type Client = OnChannel;

    fn next(&self) -> Outcome<Result<Option<OnChannel>, Refused>> {
        match self.try_accept() {
            Ok(channel) => Ok(Ok(Some(channel.into()))),
            Err(error) if error.is_would_block() => Ok(Ok(None)),
            // The card is gone, and the name with it.
            Err(error) if is_gone(&error) => Err(error.into()),
            // The card has no room for this client, which got the reason.
            Err(error) => Ok(Err(Refused(error.to_string()))),
        }
    }
}
