//! Channels for `tokio`, as messages or as byte streams. A manager's [`Hub`] wakes the task whose
//! channel has news.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use ::tokio::time::{Sleep, sleep};

use super::{Channel, ChannelReceiver, ChannelSender, Received, Reserved};
use crate::error::{Error, Result};
use crate::hamlyn::asynchronous::{Hub, Place, watch};

/// The receiving end. Use [`ReadHalf::recv`] for messages, or [`AsyncRead`] for a byte stream.
#[derive(Debug)]
pub struct ReadHalf {
    receiver: ChannelReceiver,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
    /// Set once the peer's end is known: how long its last data may still be in flight.
    grace: Option<Pin<Box<Sleep>>>,
}

/// The sending end. Use [`WriteHalf::send`] and [`WriteHalf::reserve`] for messages, or
/// [`AsyncWrite`] for a byte stream.
///
/// Shutting down closes the channel gracefully: the peer receives everything that was sent, and
/// then the end. If it is dropped without shutdown, the peer is notified that it was abandoned.
#[derive(Debug)]
pub struct WriteHalf {
    sender: ChannelSender,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
}

impl Channel {
    /// Converts both ends for `tokio`, as messages or as byte streams, for the same task or two
    /// tasks. The hub must be the one of the channel's manager.
    ///
    /// # Errors
    /// The system's errors, if no file descriptor is left.
    pub fn into_async(self, hub: &Hub) -> io::Result<(ReadHalf, WriteHalf)> {
        let Self { mut sender, mut receiver } = self;
        let peer = receiver.peer_file().map(watch).transpose()?;
        let peer_of_sender = receiver.peer_file().map(watch).transpose()?;
        let (reads, writes) = (hub.enter(), hub.enter());
        receiver.set_token(reads.token);
        sender.set_token(writes.token);
        Ok((
            ReadHalf { receiver, place: reads, peer, grace: None },
            WriteHalf { sender, place: writes, peer: peer_of_sender },
        ))
    }
}

impl ReadHalf {
    /// Returns the next message, in place, or `None` if the peer has closed and everything was
    /// received. The message is released when it is dropped. Do not mix with reading as bytes: use
    /// one or the other.
    ///
    /// If this future is dropped before it completes, it has taken nothing. The next call returns
    /// the message, even if a part of it had already arrived.
    ///
    /// # Errors
    /// The errors of [`ChannelReceiver::recv_block`], except for the timeout; also
    /// [`Error::System`] if the hub has stopped watching, because the card is gone.
    pub async fn recv(&mut self) -> Result<Option<Received<'_>>> {
        let next = poll_fn(|context| self.attempt(context, ChannelReceiver::try_next)).await?;
        // There is no await after this point, so a taken message is not lost if the future is
        // dropped.
        Ok(next.map(|span| Received { receiver: &mut self.receiver, span }))
    }

    /// Makes an attempt, and retries when something has arrived or the peer has ended.
    fn attempt<T>(
        &mut self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&mut ChannelReceiver) -> Result<T>,
    ) -> Poll<Result<T>> {
        for _ in 0..TURNS {
            self.place.wait(context).map_err(unwatched)?;
            // The attempt must follow the registration. It sees what was dispatched before; what is
            // dispatched later wakes the task.
            match attempt(&mut self.receiver) {
                Err(error) if error.is_would_block() => {}
                outcome => return Poll::Ready(outcome),
            }
            if !self.receiver.arm()? {
                ready!(self.poll_end(context))?;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Completes when the peer has ended and its last data may have arrived since.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.grace.is_none() {
            // Repeat until the file is not readable. The task is then woken once it is.
            if let Some(peer) = &self.peer {
                ready!(peer.poll_read_ready(context)).map_err(unwatched)?.clear_ready();
            }
            match self.receiver.peer_ended() {
                Some(left) => self.grace = Some(Box::pin(sleep(left.max(NAP)))),
                None if self.peer.is_none() => return Poll::Pending,
                None => {}
            }
        }
        match &mut self.grace {
            Some(grace) => {
                ready!(grace.as_mut().poll(context));
                grace.set(sleep(NAP));
                Poll::Ready(Ok(()))
            }
            None => Poll::Pending,
        }
    }
}

/// Interval for checking whether data that was in flight when its sender ended has arrived.
const NAP: Duration = Duration::from_millis(1);

/// Number of attempts before the task yields to others, if the peer keeps sending but never sends a
/// byte.
const TURNS: u32 = 8;

/// The hub has stopped, so there is no wake-up. The error keeps the kind of the hub's error.
fn unwatched(error: io::Error) -> Error {
    Error::system("wait for the channel")(error)
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.attempt(context, |receiver| receiver.try_read(into.initialize_unfilled()));
        into.advance(ready!(read)?);
        Poll::Ready(Ok(()))
    }
}

impl WriteHalf {
    /// Returns the maximum message length, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.sender.longest()
    }

    /// Sends a message, and waits while there is no room for it. The message is sent without
    /// another call.
    ///
    /// If this future is dropped before it completes, the message was sent completely or not at
    /// all. When messages are used, it may have been accepted; the rest is then sent with the next
    /// call, including a shutdown. If you must know which, use [`WriteHalf::reserve`].
    ///
    /// # Errors
    /// The errors of [`ChannelSender::send`], except for the timeout; also [`Error::System`] if the
    /// hub has stopped watching, because the card is gone.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut accepted = false;
        let mut send = |sender: &mut ChannelSender| {
            if !accepted {
                sender.try_send(bytes)?;
                accepted = true;
            }
            sender.try_flush()
        };
        poll_fn(|context| self.attempt(context, bytes.len(), &mut send)).await
    }

    /// Reserves room for a message of this length where the peer will read it. Build the message
    /// there and send it with [`Reserved::commit`]. Waits for room. When messages are used, the
    /// rest of what was committed may be sent with a later call: flush afterwards if none follows.
    ///
    /// If this future is dropped before it completes, nothing was sent.
    ///
    /// # Errors
    /// The errors of [`WriteHalf::send`].
    pub async fn reserve(&mut self, length: usize) -> Result<Reserved<'_>> {
        let find = |sender: &mut ChannelSender| sender.try_reserve(length).map(|room| room.span);
        let span = poll_fn(|context| self.attempt(context, length, find)).await?;
        Ok(Reserved { sender: &mut self.sender, span })
    }

    /// Makes an attempt, and retries when there is room for this number of bytes.
    fn attempt<T>(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        mut attempt: impl FnMut(&mut ChannelSender) -> Result<T>,
    ) -> Poll<Result<T>> {
        loop {
            self.place.wait(context).map_err(unwatched)?;
            match attempt(&mut self.sender) {
                Err(error) if error.is_would_block() => {}
                outcome => return Poll::Ready(outcome),
            }
            if self.sender.arm(room)? {
                continue;
            }
            if let Some(peer) = &self.peer {
                if let Poll::Ready(ended) = peer.poll_read_ready(context) {
                    ended.map_err(unwatched)?.clear_ready();
                    continue;
                }
            }
            return Poll::Pending;
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let length = bytes.len().min(self.sender.piece());
        if length == 0 {
            return Poll::Ready(Ok(0));
        }
        let sent = self.attempt(context, length, |sender| sender.try_send(&bytes[..length]));
        Poll::Ready(Ok(ready!(sent).map(|()| length)?))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attempt(context, 0, ChannelSender::try_flush).map_err(io::Error::from)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attempt(context, 0, ChannelSender::try_close).map_err(io::Error::from)
    }
}
