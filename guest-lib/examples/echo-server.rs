//! Streams by name (sections 3.3 and 6.3): one thread serves any number of clients, and sleeps in `mio` when none has
//! anything to say. Each gets back what it sends.

use std::os::fd::{AsFd, AsRawFd};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::protocol::stream::{StreamListener, StreamPair};
use hamlyn::{Error, Manager};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use serde_json::json;

mod common;

/// How often a server looks whether its clients are alive.
const LOOK: Duration = Duration::from_millis(200);
/// Somebody connects.
const LISTENER: Token = Token(0);
/// Something has arrived.
const ARRIVALS: Token = Token(1);

/// Sends streams to a server that sends them back
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// The server's name
    #[arg(long, global = true, default_value = "echo")]
    name: String,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serves clients
    Serve {
        /// Clients to serve before it ends
        #[arg(long, default_value_t = 1)]
        clients: usize,
    },
    /// Connects, sends, and verifies what comes back
    Call {
        /// The server's host id
        #[arg(long)]
        host: u32,
        /// Bytes to send
        #[arg(long, default_value_t = 1 << 20)]
        bytes: usize,
        /// Bytes of each send
        #[arg(long, default_value_t = 5000)]
        size: usize,
        /// Seconds to wait for the server
        #[arg(long, default_value_t = 60)]
        timeout: u64,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let manager = Manager::create(&options.card.open()?)?;
        match options.role {
            Role::Serve { clients } => serve(&manager, &options.name, clients),
            Role::Call { host, bytes, size, timeout } => {
                let pair = StreamPair::connect(&manager, host, &options.name, common::seconds(timeout))?;
                print(&json!({ "connected": host }))?;
                call(pair, bytes, size, timeout)
            }
        }
    })
}

/// A client, and what is to be sent back to it.
struct Client {
    pair: StreamPair,
    echo: Vec<u8>,
    bytes: usize,
    over: bool,
}

fn serve(manager: &Manager, name: &str, clients: usize) -> Outcome {
    let listener = StreamListener::bind(manager, name)?;
    let mut poll = Poll::new()?;
    let arrivals = manager.file()?;
    let readable = Interest::READABLE;
    poll.registry().register(&mut SourceFd(&listener.as_fd().as_raw_fd()), LISTENER, readable)?;
    poll.registry().register(&mut SourceFd(&arrivals.as_fd().as_raw_fd()), ARRIVALS, readable)?;
    print(&json!({ "listening": name }))?;
    let mut events = Events::with_capacity(8);
    let (mut open, mut served) = (Vec::<Client>::new(), 0);
    while served < clients {
        loop {
            match listener.accept(Some(Duration::ZERO)) {
                Ok(pair) => open.push(Client { pair, echo: Vec::new(), bytes: 0, over: false }),
                Err(error) if error.is_timed_out() => break,
                Err(error) => print(&json!({ "refused": error.to_string() }))?,
            }
        }
        let mut busy = manager.poll_all()? > 0;
        let mut still = Vec::new();
        for mut client in open {
            match client.step() {
                Ok(true) => busy = true,
                Ok(false) => {}
                Err(Error::PeerLost(loss)) => {
                    served += 1;
                    print(&json!({ "echoed": client.bytes, "lost": loss.to_string() }))?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            if client.over {
                served += 1;
                print(&json!({ "echoed": client.bytes }))?;
            } else {
                still.push(client);
            }
        }
        open = still;
        if !busy && !manager.arm()? {
            poll.poll(&mut events, Some(LOOK))?;
        }
    }
    Ok(())
}

impl Client {
    /// Does what can be done now. Whether there was anything.
    fn step(&mut self) -> hamlyn::Result<bool> {
        let mut busy = false;
        if self.echo.is_empty() {
            let number = match self.pair.receiver.try_receive() {
                Ok(Some(record)) => {
                    self.echo = record.to_vec();
                    record.number()
                }
                Ok(None) => {
                    self.over = later(self.pair.sender.try_close())?;
                    return Ok(self.over);
                }
                Err(error) if error.is_would_block() => return Ok(false),
                Err(error) => return Err(error),
            };
            self.pair.receiver.release(number)?;
            busy = true;
        }
        match self.pair.sender.try_send(&self.echo) {
            Ok(sent) => {
                self.echo.drain(..sent);
                self.bytes += sent;
                busy = true;
            }
            Err(error) if error.is_would_block() => {}
            Err(error) => return Err(error),
        }
        later(self.pair.sender.try_flush())?;
        Ok(busy)
    }
}

/// Whether it is done.
fn later(result: hamlyn::Result<()>) -> hamlyn::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.is_would_block() => Ok(false),
        Err(error) => Err(error),
    }
}

/// One thread sends and another receives: either may have to wait for the server.
fn call(pair: StreamPair, bytes: usize, size: usize, timeout: u64) -> Outcome {
    let StreamPair { mut sender, mut receiver } = pair;
    let sending = std::thread::spawn(move || {
        let mut part = vec![0; size.max(1)];
        for offset in (0..bytes).step_by(size.max(1)) {
            let part = &mut part[..size.max(1).min(bytes - offset)];
            common::fill_pattern(1, offset, part);
            sender.send(part)?;
        }
        sender.close(common::seconds(timeout))
    });
    let mut got = 0;
    loop {
        let number = match receiver.receive(common::seconds(timeout)) {
            Ok(Some(record)) => {
                let data = record.to_vec();
                if let Some(at) = common::find_difference(1, got, &data) {
                    return Err(format!("byte {} is wrong", got + at).into());
                }
                got += data.len();
                record.number()
            }
            Ok(None) => break,
            Err(error) => {
                print(&json!({ "received": got, "lost": error.to_string() }))?;
                return Err(error.into());
            }
        };
        receiver.release(number)?;
    }
    sending.join().map_err(|_| "the sending thread panicked")??;
    print(&json!({ "sent": bytes, "received": got, "verified": got == bytes }))
}
