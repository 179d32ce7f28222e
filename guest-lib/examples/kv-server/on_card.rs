//! Clients by streams through the card: by name, or by seeds that somebody carries.

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

/// Somebody connects.
const LISTENER: Token = Token(usize::MAX - 2);
/// Something has arrived.
const ARRIVALS: Token = Token(usize::MAX - 1);

/// A pair of streams whose calls do not wait.
#[derive(Debug)]
pub(crate) struct OnCard {
    pair: StreamPair,
    behind: bool,
}

impl OnCard {
    /// From now on this number is told when there is something.
    pub(crate) fn new(mut pair: StreamPair, number: u64) -> Self {
        pair.receiver.set_token(number);
        pair.sender.set_token(number);
        Self { pair, behind: false }
    }

    fn note<R>(&mut self, result: hamlyn::Result<R>) -> io::Result<R> {
        // The receiver tells of the room that it makes; nobody does of room in the card's work
        // queue.
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

/// What tells of arrivals, of ends, and of who connects.
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

    /// Waits until somebody has something, and gives their numbers. None of them: somebody else
    /// has, or the time is over.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Outcome<Vec<u64>> {
        self.manager.poll_all()?;
        let mut ready = self.manager.ready();
        if ready.is_empty() && limit != Some(Duration::ZERO) && !self.manager.arm()? {
            match self.poll.poll(&mut self.events, limit) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            // The token of a client's connection, which has ended, is its number.
            ready.extend(self.events.iter().map(|event| event.token().0 as u64));
        }
        Ok(ready)
    }

    /// Also tells of this client's end.
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

/// Where clients come from.
#[derive(Debug)]
enum Door {
    Name(StreamListener),
    /// Each line is a client's seed, and is answered by the server's.
    Hand(mpsc::Receiver<String>),
}

/// Serves until so many clients have ended.
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

/// Lets in whoever asks, or tells them why not.
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
            // The card has no room for it: it has been told why, and the others are served on.
            Err(error) => print(&json!({ "refused": error.to_string() }))?,
        }
    }
}

fn is_gone(error: &Error) -> bool {
    let gone = Errno::NODEV.raw_os_error();
    matches!(error, Error::System { source, .. } if source.raw_os_error() == Some(gone))
}

/// The lines of standard input. Each one wakes the server.
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

/// The ends for a client whose seed this is. It is told ours, or why there is none.
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

/// A client's end of a stream by name, or by a seed that somebody carries.
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
