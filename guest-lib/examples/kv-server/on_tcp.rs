//! The same over TCP, for comparison.

use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::server::Server;
use crate::session::{Stream, now};
use crate::wire::{self, Status};

const LISTENER: Token = Token(usize::MAX - 2);

impl Stream for TcpStream {
    fn close(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// Waits for arrivals, room and connection requests.
#[derive(Debug)]
pub(crate) struct News {
    poll: Poll,
    events: Events,
}

impl News {
    pub(crate) fn new() -> Outcome<Self> {
        Ok(Self { poll: Poll::new()?, events: Events::with_capacity(256) })
    }

    /// Registers the stream under this number, and makes its calls non-blocking.
    pub(crate) fn add(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut SourceFd(&stream.as_raw_fd()), Token(number as usize), both)
    }

    /// Waits until some clients are ready, and returns their numbers.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Outcome<Vec<u64>> {
        match self.poll.poll(&mut self.events, limit) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        Ok(self.events.iter().map(|event| event.token().0 as u64).collect())
    }
}

pub(crate) fn serve(address: SocketAddr, (mut server, until): (Server<TcpStream>, u64)) -> Outcome {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let mut news = News::new()?;
    let file = listener.as_raw_fd();
    news.poll.registry().register(&mut SourceFd(&file), LISTENER, Interest::READABLE)?;
    print(&json!({ "listening": listener.local_addr()?.to_string() }))?;
    while server.served < until {
        while let Some((mut stream, _)) = now(listener.accept())? {
            if let Some(reason) = server.refusal() {
                // A new connection has room for a few bytes.
                let _ = stream.write_all(&wire::answer(Status::Refused, reason.as_bytes()));
                continue;
            }
            news.add(server.next_number(), &stream)?;
            server.admit(stream);
        }
        let limit = server.work()?;
        if server.served < until {
            news.wait(limit)?.into_iter().for_each(|number| server.wake(number));
        }
    }
    Ok(())
}

/// Connects as soon as the server listens.
pub(crate) fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    Ok(TcpStream::connect(address)?)
}
