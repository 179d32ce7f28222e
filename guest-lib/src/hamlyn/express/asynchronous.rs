//! Channels for `tokio`, as streams of bytes: a manager's [`Hub`] wakes the task whose channel has news.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use ::tokio::time::{Sleep, sleep};

use super::{Channel, ChannelReceiver, ChannelSender};
use crate::error::Result;
use crate::hamlyn::asynchronous::{Hub, Place, watch};

/// What comes from the peer.
#[derive(Debug)]
pub struct ReadHalf {
    receiver: ChannelReceiver,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
    /// The peer's end is known: how long what it has sent may still be on its way.
    grace: Option<Pin<Box<Sleep>>>,
}

/// What goes to the peer.
#[derive(Debug)]
pub struct WriteHalf {
    sender: ChannelSender,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
}

impl Channel {
    /// Both ends as streams of bytes for `tokio`, for the same task or two. The hub is of the channel's manager.
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
    /// Whether the peer has ended, and what it had sent may have come since.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.grace.is_none() {
            if let Some(peer) = &self.peer {
                ready!(peer.poll_read_ready(context))?.clear_ready();
            }
            match self.receiver.peer_ended() {
                Some(left) => self.grace = Some(Box::pin(sleep(left.max(NAP)))),
                None => return Poll::Pending,
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

/// How often a task looks again, where the peer has always sent something and never a byte, before others have their turns.
const TURNS: u32 = 8;

impl AsyncRead for ReadHalf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..TURNS {
            self.place.wait(context)?;
            // Behind it: what was handed on before it is seen by this look, what comes later wakes.
            match self.receiver.try_read(into.initialize_unfilled()) {
                Ok(length) => {
                    into.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.is_would_block() => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
            if !self.receiver.arm()? {
                ready!(self.poll_end(context))?;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl WriteHalf {
    /// Makes an attempt, and others when there is room for so many bytes.
    fn attempt<T>(
        &mut self,
        context: &mut Context<'_>,
        room: usize,
        mut attempt: impl FnMut(&mut ChannelSender) -> Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            self.place.wait(context)?;
            match attempt(&mut self.sender) {
                Ok(done) => return Poll::Ready(Ok(done)),
                Err(error) if error.is_would_block() => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
            if self.sender.arm(room)? {
                continue;
            }
            if let Some(peer) = &self.peer {
                if let Poll::Ready(ended) = peer.poll_read_ready(context) {
                    ended?.clear_ready();
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
        self.attempt(context, length, |sender| sender.try_send(&bytes[..length]).map(|()| length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attempt(context, 0, ChannelSender::try_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attempt(context, 0, ChannelSender::try_close)
    }
}
