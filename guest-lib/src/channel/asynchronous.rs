//! Channels for `tokio` (feature `tokio`): futures of messages, and byte streams.
//!
//! ```no_run
//! use hamlyn::channel::asynchronous::Listener;
//! use hamlyn::channel::{self, Card, Options};
//!
//! # async fn example() -> hamlyn::Result<()> {
//! let card = Card::open_any()?;
//! let listener = Listener::new(channel::Listener::bind(&card, "echo", Options::default())?)?;
//! loop {
//!     let (mut sender, mut receiver) = listener.accept().await?;
//!     tokio::spawn(async move {
//!         while let Some(message) = receiver.recv().await? {
//!             sender.send(&message.to_vec()?).await?;
//!         }
//!         Ok::<(), hamlyn::Error>(())
//!     });
//! }
//! # }
//! ```
//!
//! Each half is a byte stream, too. `tokio::io::join(receiver, sender)` is both in one. Opening a
//! channel blocks: use `tokio::task::spawn_blocking` for that, and [`Channel::into_async`].

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use super::sender::Wait;
use super::{Channel, Message, Room};
use crate::error::{Error, Result};

/// Number of attempts before a task yields to others, if the peer keeps it busy.
const TURNS: u32 = 8;

impl Channel {
    /// Converts both halves for `tokio`. Must be called within a runtime that has I/O enabled.
    ///
    /// # Errors
    /// [`Error::System`] if no file descriptor is left.
    pub fn into_async(self) -> Result<(Sender, Receiver)> {
        Ok((Sender::new(self.sender)?, Receiver::new(self.receiver)?))
    }
}

/// The newer constructors are unsafe, because a type that has a raw file descriptor need not own
/// it. `OwnedFd` does.
#[allow(deprecated)]
fn watch(file: impl AsFd) -> Result<AsyncFd<OwnedFd>> {
    let file = file.as_fd().try_clone_to_owned();
    file.and_then(|file| AsyncFd::with_interest(file, Interest::READABLE)).map_err(unwatched)
}

fn unwatched(error: io::Error) -> Error {
    Error::system("watch a channel's file")(error)
}

/// Makes attempts until one need not wait. Between two, waits for the half's file.
fn attempts<H, T>(
    half: &mut H,
    file: &AsyncFd<OwnedFd>,
    context: &mut Context<'_>,
    mut attempt: impl FnMut(&mut H) -> Result<T>,
    arm: impl Fn(&mut H) -> Result<bool>,
) -> Poll<Result<T>> {
    for _ in 0..TURNS {
        match attempt(half) {
            Err(error) if error.is_would_block() => {}
            outcome => return Poll::Ready(outcome),
        }
        // What comes after this call makes the file readable again.
        if !arm(half)? {
            ready!(file.poll_read_ready(context)).map_err(unwatched)?.clear_ready();
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}

/// The sending half: [`Sender::send`] for messages, or [`AsyncWrite`] for a byte stream.
///
/// Shutting down closes the channel in this direction: the peer receives everything that was sent,
/// and then the end. Dropping it waits until that is certain, for at most a second. If it is
/// dropped without shutdown, the peer gets [`crate::PeerLoss::Abandoned`].
#[derive(Debug)]
pub struct Sender {
    half: super::Sender,
    file: AsyncFd<OwnedFd>,
}

impl Sender {
    /// Wraps a sender. Must be called within a `tokio` runtime that has I/O enabled.
    ///
    /// # Errors
    /// [`Error::System`] if no file descriptor is left.
    pub fn new(mut half: super::Sender) -> Result<Self> {
        let file = watch(half.file()?)?;
        Ok(Self { half, file })
    }

    /// Returns the length of the longest message, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.half.longest()
    }

    /// Sends a message. Waits while the ring has no space for it. If the future is dropped before
    /// it completes, nothing was sent.
    ///
    /// # Errors
    /// Those of [`super::Sender::send`].
    pub async fn send(&mut self, message: &[u8]) -> Result<()> {
        let mut room = self.reserve(message.len()).await?;
        room.write(0, message)?;
        room.commit()
    }

    /// Reserves space for a message, as [`super::Sender::reserve`]. If the future is dropped before
    /// it completes, nothing was reserved.
    ///
    /// # Errors
    /// Those of [`super::Sender::reserve`].
    pub async fn reserve(&mut self, length: usize) -> Result<Room<'_>> {
        let find = |half: &mut super::Sender| half.reserve_with(length, Wait::No).map(|room| room.span);
        let span = poll_fn(|context| self.poll(context, length, find)).await?;
        Ok(Room { sender: &mut self.half, span })
    }

    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        length: usize,
        attempt: impl FnMut(&mut super::Sender) -> Result<T>,
    ) -> Poll<Result<T>> {
        attempts(&mut self.half, &self.file, context, attempt, |half| half.arm(length))
    }
}

impl AsyncWrite for Sender {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let length = bytes.len().min(self.half.piece());
        if length == 0 {
            return Poll::Ready(Ok(0));
        }
        let sent = self.poll(context, length, |half| half.try_send(&bytes[..length]));
        Poll::Ready(Ok(ready!(sent).map(|()| length)?))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(ready!(self.poll(context, 0, super::Sender::try_flush))?))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.half.announce_end();
        Poll::Ready(Ok(()))
    }
}

/// The receiving half: [`Receiver::recv`] for messages, or [`AsyncRead`] for a byte stream. Use one
/// or the other.
#[derive(Debug)]
pub struct Receiver {
    half: super::Receiver,
    file: AsyncFd<OwnedFd>,
}

impl Receiver {
    /// Wraps a receiver. Must be called within a `tokio` runtime that has I/O enabled.
    ///
    /// # Errors
    /// [`Error::System`] if no file descriptor is left.
    pub fn new(mut half: super::Receiver) -> Result<Self> {
        let file = watch(half.file()?)?;
        Ok(Self { half, file })
    }

    /// Returns the next message in place, or `None` if the peer has closed. If the future is
    /// dropped before it completes, nothing was taken.
    ///
    /// # Errors
    /// Those of [`super::Receiver::recv`].
    pub async fn recv(&mut self) -> Result<Option<Message<'_>>> {
        // No await follows, so a message that was taken is not lost.
        let next = poll_fn(|context| self.poll(context, |half| half.next(Wait::No))).await?;
        Ok(next.map(|span| Message { receiver: &mut self.half, span }))
    }

    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        attempt: impl FnMut(&mut super::Receiver) -> Result<T>,
    ) -> Poll<Result<T>> {
        attempts(&mut self.half, &self.file, context, attempt, super::Receiver::arm)
    }
}

impl AsyncRead for Receiver {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.poll(context, |half| half.try_read(into.initialize_unfilled()));
        into.advance(ready!(read)?);
        Poll::Ready(Ok(()))
    }
}

/// A name under which other processes open channels to this one.
#[derive(Debug)]
pub struct Listener {
    listener: super::Listener,
    file: AsyncFd<OwnedFd>,
}

impl Listener {
    /// Wraps a listener. Must be called within a `tokio` runtime that has I/O enabled.
    ///
    /// # Errors
    /// [`Error::System`] if no file descriptor is left.
    pub fn new(listener: super::Listener) -> Result<Self> {
        let file = watch(&listener)?;
        Ok(Self { listener, file })
    }

    /// Accepts the next peer.
    ///
    /// # Errors
    /// Those of [`super::Listener::accept`]. Other peers can still be accepted.
    pub async fn accept(&self) -> Result<(Sender, Receiver)> {
        loop {
            match self.listener.try_accept() {
                Err(error) if error.is_would_block() => {}
                accepted => return accepted?.into_async(),
            }
            // A request that comes after this makes the file readable again.
            self.file.readable().await.map_err(unwatched)?.clear_ready();
        }
    }
}
