//! Channels for `tokio`, of messages or as streams of bytes: a manager's [`Hub`] wakes the task
//! whose channel has news.

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

/// What comes from the peer: messages by [`ReadHalf::recv`], or a stream of bytes by [`AsyncRead`].
#[derive(Debug)]
pub struct ReadHalf {
    receiver: ChannelReceiver,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
    /// The peer's end is known: how long what it has sent may still be on its way.
    grace: Option<Pin<Box<Sleep>>>,
}

/// What goes to the peer: messages by [`WriteHalf::send`] and [`WriteHalf::reserve`], or a stream
/// of bytes by [`AsyncWrite`].
///
/// To shut down closes it gracefully: the peer receives all that was sent, and then that there is
/// no more. Dropped without it, the peer is told that it was abandoned.
#[derive(Debug)]
pub struct WriteHalf {
    sender: ChannelSender,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
}

impl Channel {
    /// Both ends for `tokio`, of messages or as streams of bytes, for the same task or two. The hub
    /// is of the channel's manager.
    ///
    /// # Errors
    /// Those of the system, if there is no file left.
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
    /// The next message, in place; `None` if the peer has closed and all was received. It is
    /// released when it is dropped. Not beside reading as bytes: one or the other.
    ///
    /// Dropped before it is done, this has taken nothing: the next call has the message, also one
    /// of which a part had come.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::recv_block`], but for the time; [`Error::System`] also if the
    /// hub watches no more, for the card is gone.
    pub async fn recv(&mut self) -> Result<Option<Received<'_>>> {
        let next = poll_fn(|context| self.attempt(context, ChannelReceiver::try_next)).await?;
        // Nothing is awaited from here on: what was taken is not lost with the future.
        Ok(next.map(|span| Received { receiver: &mut self.receiver, span }))
    }

    /// Makes an attempt, and others when something has come or the peer has ended.
    fn attempt<T>(
        &mut self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&mut ChannelReceiver) -> Result<T>,
    ) -> Poll<Result<T>> {
        for _ in 0..TURNS {
            self.place.wait(context).map_err(unwatched)?;
            // Behind it: what was handed on before it is seen by this look, what comes later wakes.
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

    /// Whether the peer has ended, and what it had sent may have come since.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.grace.is_none() {
            // Until it is not readable: then this is woken once it is.
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

/// How soon to look again whether what was on its way has come behind its sender's end.
const NAP: Duration = Duration::from_millis(1);

/// How often a task looks again, where the peer has always sent something and never a byte, before
/// others have their turns.
const TURNS: u32 = 8;

/// Nobody wakes who waits. The kind stays that of the hub's error.
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
    /// The longest message, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.sender.longest()
    }

    /// Sends a message, and waits while there is no room for it. It goes without another call.
    ///
    /// Dropped before it is done, it has sent the message whole or not at all. By messages it may
    /// have accepted it: then the rest goes with the next call, be it to shut down. Who has to know
    /// which takes [`WriteHalf::reserve`].
    ///
    /// # Errors
    /// Those of [`ChannelSender::send`], but for the time; [`Error::System`] also if the hub
    /// watches no more, for the card is gone.
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

    /// Room for a message of so many bytes where the peer will read it, to be built there and sent
    /// by [`Reserved::commit`]. Waits for it. By messages the rest of what was committed may go
    /// with a later call: flush behind it, if none follows.
    ///
    /// Dropped before it is done, this has sent nothing.
    ///
    /// # Errors
    /// Those of [`WriteHalf::send`].
    pub async fn reserve(&mut self, length: usize) -> Result<Reserved<'_>> {
        let find = |sender: &mut ChannelSender| sender.try_reserve(length).map(|room| room.span);
        let span = poll_fn(|context| self.attempt(context, length, find)).await?;
        Ok(Reserved { sender: &mut self.sender, span })
    }

    /// Makes an attempt, and others when there is room for so many bytes.
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
