//! The same over TCP, for comparison.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use mio::Interest;

use crate::common::Outcome;
use crate::news::News;
use crate::server::{Door, Refused};
use crate::session::{Awaited, Stream, now};

/// A connection with non-blocking calls.
#[derive(Debug)]
pub(crate) struct OnTcp {
    stream: TcpStream,
    watched: bool,
}

impl OnTcp {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, watched: false })
    }

    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::new(TcpStream::connect(address)?)
    }
}

pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Read for OnTcp {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.read(to)
    }
}

impl Write for OnTcp {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Stream for OnTcp {
    fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    fn arm(&mut self, number: u64, _awaited: Awaited, _is_only: bool, news: &News) -> io::Result<bool> {
        // The kernel reports each change once the file is watched.
        if !std::mem::replace(&mut self.watched, true) {
            news.watch(number, self.stream.as_fd(), Interest::READABLE | Interest::WRITABLE)?;
        }
        Ok(false)
    }
}

impl Door for TcpListener {
    type Client = OnTcp;

    fn next(&self) -> Outcome<Result<Option<OnTcp>, Refused>> {
        Ok(Ok(now(self.accept())?.map(|(stream, _)| OnTcp::new(stream)).transpose()?))
    }
}
