//! Streams for `tokio` (feature `tokio`). [`Stream`] implements `AsyncRead` and `AsyncWrite`;
//! [`Hub`] watches a manager for all of its streams.
//!
//! ```no_run
//! use hamlyn::asynchronous::{Hub, Listener};
//! use hamlyn::protocol::stream::StreamListener;
//! use hamlyn::{Card, Manager};
//!
//! # async fn example() -> std::io::Result<()> {
//! let manager = Manager::create(&Card::open_default()?)?;
//! let hub = Hub::start(&manager)?;
//! let listener = Listener::new(&hub, StreamListener::bind(&manager, "echo")?)?;
//! loop {
//!     let stream = listener.accept().await?;
//!     let (mut from, mut to) = stream.into_split();
//!     tokio::spawn(async move {
//!         tokio::io::copy(&mut from, &mut to).await?;
//!         tokio::io::AsyncWriteExt::shutdown(&mut to).await
//!     });
//! }
//! # }
//! ```

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use ::tokio::task::AbortHandle;
use ::tokio::time::{Sleep, sleep};

use crate::error::{Error, Result};
use crate::hamlyn::manager::Manager;
use crate::hamlyn::protocol::stream::{StreamListener, StreamPair, StreamReceiver, StreamSender};

/// Interval for checking whether data that was in flight when its sender ended has arrived.
const NAP: Duration = Duration::from_millis(1);

/// Watches a manager, and wakes the task whose stream has news. Use one hub per manager.
///
/// Cheap to clone. Its task ends with its last clone and the last of its streams. No other code may
/// wait at the manager meanwhile ([`Manager::wait`], [`Manager::arm`]) or take its
/// [`Manager::ready`] tokens: those belong to the hub.
#[derive(Debug, Clone)]
pub struct Hub {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tasks: Arc<Tasks>,
    next: AtomicU64,
    watching: AbortHandle,
}

/// Wakers of the waiting tasks, by token. A stream end without a waiting task has `None`.
#[derive(Debug, Default)]
struct Tasks(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    wakers: BTreeMap<u64, Option<Waker>>,
    /// The hub has stopped watching, because the card is gone.
    over: bool,
}

impl Hub {
    /// Starts watching. Must be called within a `tokio` runtime that has I/O and time enabled.
    ///
    /// # Errors
    /// The system's errors, if no file descriptor is left.
    pub fn start(manager: &Manager) -> io::Result<Self> {
        let (tasks, file) = (Arc::new(Tasks::default()), watch(manager.as_fd())?);
        let watching = ::tokio::spawn(watch_over(manager.clone(), file, tasks.clone())).abort_handle();
        Ok(Self { shared: Arc::new(Shared { tasks, next: AtomicU64::new(0), watching }) })
    }

    pub(super) fn enter(&self) -> Place {
        let token = self.shared.next.fetch_add(1, Ordering::Relaxed);
        self.shared.tasks.lock().wakers.insert(token, None);
        Place { hub: self.clone(), token }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, tokens: &[u64]) {
        let mut waiting = self.lock();
        let woken: Vec<_> = tokens.iter().filter_map(|token| waiting.wakers.get_mut(token)?.take()).collect();
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }

    fn end(&self) {
        let mut waiting = self.lock();
        waiting.over = true;
        let woken: Vec<_> = waiting.wakers.values_mut().filter_map(Option::take).collect();
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Dispatches arrivals, and wakes the tasks that they are for, until the card is gone.
async fn watch_over(manager: Manager, file: AsyncFd<OwnedFd>, tasks: Arc<Tasks>) {
    loop {
        // A stream that lost something reports it itself.
        let _ = manager.poll_all();
        tasks.wake(&manager.ready());
        match manager.arm() {
            Ok(true) => ::tokio::task::yield_now().await,
            // The file was readable for what has been dispatched. New arrivals make it readable
            // again.
            Ok(false) => match file.readable().await {
                Ok(mut readable) => readable.clear_ready(),
                Err(_) => break,
            },
            Err(_) => break,
        }
    }
    tasks.end();
}

/// The newer constructors are unsafe, because a type that has a raw file descriptor need not own
/// it. `OwnedFd` does.
#[allow(deprecated)]
pub(super) fn watch(file: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(file.try_clone_to_owned()?, Interest::READABLE)
}

/// One end of a stream, as its hub knows it.
#[derive(Debug)]
pub(super) struct Place {
    hub: Hub,
    pub(super) token: u64,
}

impl Place {
    /// Registers the current task to be woken when there is news.
    pub(super) fn wait(&self, context: &Context<'_>) -> io::Result<()> {
        let mut waiting = self.hub.shared.tasks.lock();
        if waiting.over {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the card is gone"));
        }
        waiting.wakers.insert(self.token, Some(context.waker().clone()));
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.hub.shared.tasks.lock().wakers.remove(&self.token);
    }
}

/// Two streams, one in each direction, opened by name ([`StreamPair`]).
///
/// Written data is coalesced until a record is full or is flushed, as with a `BufWriter`.
/// `tokio::io::copy` flushes by itself. Shutting down closes the stream to the peer gracefully. If
/// the stream is dropped without shutdown, the peer is notified that it was abandoned.
#[derive(Debug)]
pub struct Stream {
    from: ReadHalf,
    to: WriteHalf,
}

impl Stream {
    /// Takes both ends of a pair that belongs to the hub's manager. Connect the pair elsewhere,
    /// because that takes time: use [`StreamPair::connect`] in `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    /// The system's errors, if no file descriptor is left.
    pub fn new(hub: &Hub, pair: StreamPair) -> io::Result<Self> {
        let StreamPair { mut sender, mut receiver } = pair;
        let peer = receiver.peer_file().map(watch).transpose()?;
        let peer_of_sender = receiver.peer_file().map(watch).transpose()?;
        let (reads, writes) = (hub.enter(), hub.enter());
        receiver.set_token(reads.token);
        sender.set_token(writes.token);
        Ok(Self {
            from: ReadHalf { receiver, place: reads, peer, grace: None },
            to: WriteHalf { sender, place: writes, peer: peer_of_sender },
        })
    }

    /// Splits the stream into its ends, for different tasks.
    #[must_use]
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (self.from, self.to)
    }
}

/// The stream from the peer.
#[derive(Debug)]
pub struct ReadHalf {
    receiver: StreamReceiver,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
    /// Set once the peer's end is known: how long its last data may still be in flight.
    grace: Option<Pin<Box<Sleep>>>,
}

impl ReadHalf {
    /// Wraps a receiver that is used with a seed, without a connection.
    #[must_use]
    pub fn new(hub: &Hub, mut receiver: StreamReceiver) -> Self {
        let place = hub.enter();
        receiver.set_token(place.token);
        Self { receiver, place, peer: None, grace: None }
    }

    /// Completes when the peer has ended and its last data may have arrived since.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.grace.is_none() {
            // Repeat until the file is not readable. The task is then woken once it is.
            if let Some(peer) = &self.peer {
                ready!(peer.poll_read_ready(context))?.clear_ready();
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

/// The stream to the peer.
#[derive(Debug)]
pub struct WriteHalf {
    sender: StreamSender,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
}

impl WriteHalf {
    /// Wraps a sender that was created from a seed, without a connection.
    #[must_use]
    pub fn new(hub: &Hub, mut sender: StreamSender) -> Self {
        let place = hub.enter();
        sender.set_token(place.token);
        Self { sender, place, peer: None }
    }

    /// Makes an attempt, and retries when there is room.
    fn attempt<T>(
        &mut self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&mut StreamSender) -> Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            self.place.wait(context)?;
            // The attempt must follow the registration. It sees what was dispatched before; what is
            // dispatched later wakes the task.
            match attempt(&mut self.sender) {
                Ok(done) => return Poll::Ready(Ok(done)),
                Err(error) if error.is_would_block() => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
            if let Some(peer) = &self.peer {
                if let Poll::Ready(ended) = peer.poll_read_ready(context) {
                    ended?.clear_ready();
                    continue;
                }
            }
            // The hub is notified of room at the receiver and at the card.
            return Poll::Pending;
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            self.place.wait(context)?;
            // The read must follow the registration. It sees what was dispatched before; what is
            // dispatched later wakes the task.
            match self.receiver.try_read(into.initialize_unfilled()) {
                Ok(length) => {
                    into.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.is_would_block() => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
            ready!(self.poll_end(context))?;
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.attempt(context, |sender| sender.try_send(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attempt(context, StreamSender::try_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attempt(context, StreamSender::try_close)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.from).poll_read(context, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.to).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_shutdown(context)
    }
}

/// A name under which other processes open streams to this one.
#[derive(Debug)]
pub struct Listener {
    listener: StreamListener,
    file: AsyncFd<OwnedFd>,
    hub: Hub,
}

impl Listener {
    /// Takes a listener of the hub's manager.
    ///
    /// # Errors
    /// The system's errors, if no file descriptor is left.
    pub fn new(hub: &Hub, listener: StreamListener) -> io::Result<Self> {
        let file = watch(listener.as_fd())?;
        Ok(Self { listener, file, hub: hub.clone() })
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// The errors of [`StreamListener::accept`]. You can continue to accept after an error.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            match self.listener.try_accept() {
                Ok(pair) => return Stream::new(&self.hub, pair),
                Err(Error::WouldBlock { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let mut readable = self.file.readable().await?;
            // Clear readiness before looking again: a later request makes the file readable again.
            readable.clear_ready();
            match self.listener.try_accept() {
                Ok(pair) => return Stream::new(&self.hub, pair),
                Err(Error::WouldBlock { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
