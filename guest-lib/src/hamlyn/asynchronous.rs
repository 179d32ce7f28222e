//! Streams for `tokio` (feature `tokio`): [`Stream`] is an `AsyncRead` and an `AsyncWrite`, [`Hub`]
//! watches a manager for all of its streams.
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

/// How soon to look again whether what was on its way has come behind its sender's end.
const NAP: Duration = Duration::from_millis(1);

/// Watches a manager, and wakes the task whose stream has news. One for each manager.
///
/// Cheap to clone; its task ends with its last clone and the last of its streams. Nobody else may
/// wait at the manager meanwhile ([`Manager::wait`], [`Manager::arm`]) or take its
/// [`Manager::ready`] tokens: those are the hub's.
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

/// Who waits, by token. An end that is there and nobody waits for has none.
#[derive(Debug, Default)]
struct Tasks(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    wakers: BTreeMap<u64, Option<Waker>>,
    /// Nobody watches any more: the card is gone.
    over: bool,
}

impl Hub {
    /// Begins to watch. Takes a `tokio` runtime with I/O and time enabled, which this is called in.
    ///
    /// # Errors
    /// Those of the system, if there is no file left.
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

/// Hands on what arrives, and wakes those that it is for, until the card is gone.
async fn watch_over(manager: Manager, file: AsyncFd<OwnedFd>, tasks: Arc<Tasks>) {
    loop {
        // Who lost something is told by its stream.
        let _ = manager.poll_all();
        tasks.wake(&manager.ready());
        match manager.arm() {
            Ok(true) => ::tokio::task::yield_now().await,
            // It has been readable for what was handed on: what comes from now on makes it readable
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

/// Newer ways to say so are unsafe, for what has a file's number need not own it: this does.
#[allow(deprecated)]
pub(super) fn watch(file: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(file.try_clone_to_owned()?, Interest::READABLE)
}

/// An end of a stream, as its hub knows it.
#[derive(Debug)]
pub(super) struct Place {
    hub: Hub,
    pub(super) token: u64,
}

impl Place {
    /// This task is woken when there is news.
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

/// Two streams, there and back, by a name ([`StreamPair`]).
///
/// What is written is coalesced until a record is full or it is flushed, as behind a `BufWriter`;
/// `tokio::io::copy` flushes by itself. To shut down closes the stream to the peer gracefully;
/// dropped without it, the peer is told that it was abandoned.
#[derive(Debug)]
pub struct Stream {
    from: ReadHalf,
    to: WriteHalf,
}

impl Stream {
    /// Takes both ends of a pair, of the hub's manager. A pair that is to be connected is connected
    /// elsewhere, for that takes its time: by [`StreamPair::connect`] in
    /// `tokio::task::spawn_blocking`.
    ///
    /// # Errors
    /// Those of the system, if there is no file left.
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

    /// Its ends, for different tasks.
    #[must_use]
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (self.from, self.to)
    }
}

/// What comes from the peer.
#[derive(Debug)]
pub struct ReadHalf {
    receiver: StreamReceiver,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
    /// The peer's end is known: how long what it has sent may still be on its way.
    grace: Option<Pin<Box<Sleep>>>,
}

impl ReadHalf {
    /// The receiver from a seed, if there is no connection.
    #[must_use]
    pub fn new(hub: &Hub, mut receiver: StreamReceiver) -> Self {
        let place = hub.enter();
        receiver.set_token(place.token);
        Self { receiver, place, peer: None, grace: None }
    }

    /// Whether the peer has ended, and what it had sent may have come since.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.grace.is_none() {
            // Until it is not readable: then this is woken once it is.
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

/// What goes to the peer.
#[derive(Debug)]
pub struct WriteHalf {
    sender: StreamSender,
    place: Place,
    peer: Option<AsyncFd<OwnedFd>>,
}

impl WriteHalf {
    /// The sender from a seed, if there is no connection.
    #[must_use]
    pub fn new(hub: &Hub, mut sender: StreamSender) -> Self {
        let place = hub.enter();
        sender.set_token(place.token);
        Self { sender, place, peer: None }
    }

    /// Makes an attempt, and others when there is room.
    fn attempt<T>(
        &mut self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&mut StreamSender) -> Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            self.place.wait(context)?;
            // Behind it: what was handed on before it is seen by this look, what comes later wakes.
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
            // The hub is told of room, the receiver's and the card's.
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
            // Behind it: what was handed on before it is seen by this look, what comes later wakes.
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

/// A name under which others open streams to this process.
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
    /// Those of the system, if there is no file left.
    pub fn new(hub: &Hub, listener: StreamListener) -> io::Result<Self> {
        let file = watch(listener.as_fd())?;
        Ok(Self { listener, file, hub: hub.clone() })
    }

    /// The next who connects.
    ///
    /// # Errors
    /// Those of [`StreamListener::accept`]. One that cannot be let in is no reason to accept no
    /// more.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            match self.listener.accept(Some(Duration::ZERO)) {
                Ok(pair) => return Stream::new(&self.hub, pair),
                Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let mut readable = self.file.readable().await?;
            // Taken back first, and looked for behind it: whoever asks from now on makes it
            // readable again.
            readable.clear_ready();
            match self.listener.accept(Some(Duration::ZERO)) {
                Ok(pair) => return Stream::new(&self.hub, pair),
                Err(Error::TimedOut { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
