//! Clients by streams through the card: by name, or by seeds passed by hand.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::mpsc;
use std::time::Duration;

use hamlyn::protocol::stream::{StreamListener, StreamOptions, StreamPair, StreamReceiver, StreamSender};
use hamlyn::{Error, Manager};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use rustix::io::Errno;
use serde_json::json;

use crate::common::{Outcome, print, read_line};
use crate::server::Server;
use crate::session::Stream;

/// Token of connection requests.
const LISTENER: Token = Token(usize::MAX - 2);
/// Token of arrivals.
const ARRIVALS: Token = Token(usize::MAX - 1);

/// A pair of streams with non-blocking calls.
#[derive(Debug)]
pub(crate) struct OnCard {
    pair: StreamPair,
    behind: bool,
}

impl OnCard {
    /// Wraps the pair and sets its token to `number`.
    pub(crate) fn new(mut pair: StreamPair, number: u64) -> Self {
        pair.receiver.set_token(number);
        pair.sender.set_token(number);
        Self { pair, behind: false }
    }

    fn note<R>(&mut self, result: hamlyn::Result<R>) -> io::Result<R> {
        // The receiver notifies the sender of new room. Room in the card's work queue causes no
        // notification.
        self.behind = result
            .as_ref()
            .is_err_and(|error| error.is_would_block() && !StreamSender::waits_for_receiver(error));
        Ok(result?)
    }
}

impl Read for OnCard {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.pair.receiver.try_read(to)?)
    }
}

impl Write for OnCard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.pair.sender.try_send(bytes);
        self.note(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.pair.sender.try_flush();
        self.note(flushed)
    }
}

impl Stream for OnCard {
    fn close(&mut self) -> io::Result<()> {
        let closed = self.pair.sender.try_close();
        self.note(closed)
    }

    fn is_behind(&self) -> bool {
        self.behind
    }

    fn look_for_end(&self) {
        let _ = self.pair.receiver.peer_ended();
    }
}

/// Waits for arrivals, ends and connection requests.
#[derive(Debug)]
pub(crate) struct News {
    manager: Manager,
    poll: Poll,
    events: Events,
}

impl News {
    pub(crate) fn of(manager: &Manager) -> Outcome<Self> {
        let news = Self { manager: manager.clone(), poll: Poll::new()?, events: Events::with_capacity(256) };
        watch(news.poll.registry(), ARRIVALS, manager.as_fd())?;
        Ok(news)
    }

    /// Waits for a client with something to read, and returns the numbers of all such clients. The
    /// result is empty after another event or a timeout.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Outcome<Vec<u64>> {
        self.manager.poll_all()?;
        let mut ready = self.manager.ready();
        if ready.is_empty() && limit != Some(Duration::ZERO) && !self.manager.arm()? {
            match self.poll.poll(&mut self.events, limit) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            // A client's connection has its number as token, and its event means that it has ended.
            ready.extend(self.events.iter().map(|event| event.token().0 as u64));
        }
        Ok(ready)
    }

    /// Also watches for this client's end.
    pub(crate) fn watch_end(&self, number: u64, pair: &StreamPair) -> io::Result<()> {
        match pair.receiver.peer_file() {
            Some(file) => watch(self.poll.registry(), Token(number as usize), file),
            None => Ok(()),
        }
    }
}

fn watch(registry: &Registry, token: Token, file: BorrowedFd<'_>) -> io::Result<()> {
    registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE)
}

/// The source of clients.
#[derive(Debug)]
enum Door {
    Name(StreamListener),
    /// Each line is a client's seed; the answer is the server's seed.
    Hand(mpsc::Receiver<String>),
}

/// Serves until `until` clients have ended.
pub(crate) fn serve(
    manager: &Manager,
    name: Option<&str>,
    options: StreamOptions,
    (mut server, until): (Server<OnCard>, u64),
) -> Outcome {
    let mut news = News::of(manager)?;
    let door = match name {
        Some(name) => {
            let listener = StreamListener::bind_with(manager, name, options)?;
            watch(news.poll.registry(), LISTENER, listener.as_fd())?;
            print(&json!({ "listening": name }))?;
            Door::Name(listener)
        }
        None => Door::Hand(lines(manager)),
    };
    while server.served < until {
        match &door {
            Door::Name(listener) => admit_by_name(listener, &mut server, &news)?,
            Door::Hand(lines) => lines.try_iter().try_for_each(|seed| {
                let pair = by_seed(manager, options, &seed, &server)?;
                pair.into_iter().for_each(|pair| server.admit(OnCard::new(pair, server.next_number())));
                Outcome::Ok(())
            })?,
        }
        let limit = server.work()?;
        if server.served < until {
            news.wait(limit)?.into_iter().for_each(|number| server.wake(number));
        }
    }
    Ok(())
}

/// Admits all clients that ask, or rejects them with a reason.
fn admit_by_name(listener: &StreamListener, server: &mut Server<OnCard>, news: &News) -> Outcome {
    loop {
        let request = match listener.request(Some(Duration::ZERO)) {
            Ok(request) => request,
            Err(error) if error.is_timed_out() => return Ok(()),
            // The card is gone, and the name with it.
            Err(error) => return Err(error.into()),
        };
        if let Some(reason) = server.refusal() {
            // If the client has gone meanwhile, there is nothing to reject.
            let _ = request.reject(&reason);
            print(&json!({ "refused": reason }))?;
            continue;
        }
        match request.accept() {
            Ok(pair) => {
                let number = server.next_number();
                news.watch_end(number, &pair)?;
                server.admit(OnCard::new(pair, number));
            }
            Err(error) if is_gone(&error) => return Err(error.into()),
            // The card has no room for this client, which got the reason. The others are still
            // served.
            Err(error) => print(&json!({ "refused": error.to_string() }))?,
        }
    }
}

fn is_gone(error: &Error) -> bool {
    let gone = Errno::NODEV.raw_os_error();
    matches!(error, Error::System { source, .. } if source.raw_os_error() == Some(gone))
}

/// Returns the lines of standard input. Each one wakes the server.
fn lines(manager: &Manager) -> mpsc::Receiver<String> {
    let (to, lines) = mpsc::channel();
    let waker = manager.waker();
    std::thread::spawn(move || {
        while read_line().is_ok_and(|line| to.send(line).is_ok()) {
            waker.wake();
        }
    });
    lines
}

/// Creates the ends for the client with this seed. Prints the server's seed, or the reason for a
/// refusal.
fn by_seed(
    manager: &Manager,
    options: StreamOptions,
    seed: &str,
    server: &Server<OnCard>,
) -> Outcome<Option<StreamPair>> {
    let ends = || -> Outcome<StreamPair> {
        if let Some(reason) = server.refusal() {
            return Err(reason.into());
        }
        let sender = StreamSender::from_seed(manager, &seed.parse()?)?;
        Ok(StreamPair { sender, receiver: StreamReceiver::create_with(manager, options)? })
    };
    match ends() {
        Ok(pair) => {
            print(&json!({ "seed": pair.receiver.make_seed()?.to_string() }))?;
            Ok(Some(pair))
        }
        Err(error) => {
            print(&json!({ "refused": error.to_string() }))?;
            Ok(None)
        }
    }
}

/// Creates a client's end of a stream by name, or by a seed passed by hand.
pub(crate) fn connect(
    manager: &Manager,
    to: Option<(u32, &str)>,
    options: StreamOptions,
    patience: Option<Duration>,
) -> Outcome<StreamPair> {
    if let Some((host, name)) = to {
        return Ok(StreamPair::connect_with(manager, host, name, options, patience)?);
    }
    let receiver = StreamReceiver::create_with(manager, options)?;
    print(&json!({ "offer": receiver.make_seed()?.to_string() }))?;
    let answer = read_line()?;
    match answer.parse() {
        Ok(seed) => Ok(StreamPair { sender: StreamSender::from_seed(manager, &seed)?, receiver }),
        Err(_) => Err(answer.into()),
    }
}
