//! The event-driven server of section 5.3.
//!
//! The server has one loop: `poll(2)`, or `mio` by `epoll(7)`, in which the event queue's file is one of several. When that is readable,
//! events are taken and handed to the connections that they are for, until there are none; then the queue is looked at for 15 us more
//! before the loop sleeps again. When a client connects a Tripwire is set where its requests arrive, and registered with the
//! queue. Endpoints and their memory are used again for later clients of the same host.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use hamlyn::clan::programs::End;
use hamlyn::clan::programs::rpc::Server;
use hamlyn::clan::{
    Card, Endpoint, EndpointCache, EventQueue, Interest, Kit, Request, Rights, What as Happened,
};
use mio::unix::SourceFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::common::{Outcome, input_ended, print};
use crate::{clients, meet};

/// Bytes of either end's memory.
const LENGTH: usize = 4096;
/// Sources of events that the queue has room for.
const RECORDS: u32 = 4096;
/// Who asks for connections.
const LISTENER: u64 = u64::MAX;
/// How long the loop sleeps before it looks whether standard input has ended.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Serves until so many clients have left, or standard input ends
    Serve {
        /// How many
        #[arg(long, default_value_t = usize::MAX)]
        clients: usize,
        /// Microseconds for which it looks before it sleeps (section 5.3)
        #[arg(long, default_value_t = 15)]
        polling: u64,
        /// What it sleeps in
        #[arg(long, value_enum, default_value_t = Sleep::Poll)]
        sleep: Sleep,
    },
    /// Sends requests on several connections, at random
    Ask(clients::Options),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sleep {
    Poll,
    Mio,
}

pub(crate) fn run(card: &Card, meet: &meet::Options, options: &Options) -> Outcome {
    match &options.what {
        &What::Serve { clients, polling, sleep } => {
            let listener = meet.listen(card)?;
            let mut serving = Serving::new(card, listener)?;
            serving.run(clients, Duration::from_micros(polling), sleep)?;
            let (reused, opened) = serving.cache.counts();
            print(&json!({
                "served": serving.requests,
                "clients": serving.left,
                "dropped": serving.dropped,
                "sleeps": serving.sleeps,
                "endpoints_used_again": reused,
                "endpoints_opened": opened,
            }))
        }
        What::Ask(options) => clients::run(card, meet, options),
    }
}

struct Serving {
    listener: Endpoint,
    events: EventQueue,
    cache: EndpointCache,
    connections: HashMap<u64, Server>,
    next: u64,
    requests: u64,
    left: usize,
    /// Of those, how many did what they must not.
    dropped: usize,
    sleeps: u64,
}

impl Serving {
    fn new(card: &Card, listener: Endpoint) -> Outcome<Self> {
        let mut events = card.events(RECORDS)?;
        events.register(&listener, Interest { messages: true, ..Interest::default() }, LISTENER)?;
        let builder = card.endpoint_builder().tripwires(1).requests(16);
        let cache = EndpointCache::new(card, builder, LENGTH, Rights::Write, 64);
        let connections = HashMap::new();
        Ok(Self {
            listener,
            events,
            cache,
            connections,
            next: 0,
            requests: 0,
            left: 0,
            dropped: 0,
            sleeps: 0,
        })
    }

    fn run(&mut self, clients: usize, polling: Duration, sleep: Sleep) -> Outcome {
        let ended = input_ended();
        let mut mio = (sleep == Sleep::Mio).then(|| Mio::watch(&self.events)).transpose()?;
        while self.left < clients && !ended.load(Ordering::Acquire) {
            while let Some(event) = self.events.poll(polling) {
                self.happened(event.token, event.what)?;
            }
            self.sleeps += 1;
            match &mut mio {
                // It tells of changes alone, so the queue is asked once more.
                Some(mio) if !self.events.arm()? => mio.sleep()?,
                Some(_) => {}
                None => sleep_in_poll(&self.events)?,
            }
        }
        Ok(())
    }

    fn happened(&mut self, token: u64, what: Happened) -> Outcome {
        match (token, what) {
            (LISTENER, _) => {
                while let Some(request) = self.listener.try_accept() {
                    // Who cannot be let in is not let in; the others are.
                    if let Err(error) = self.admit(request) {
                        print(&json!({ "not_admitted": error.to_string() }))?;
                    }
                }
            }
            (_, Happened::Tripwire(_)) => self.answer(token),
            _ => self.look(token),
        }
        Ok(())
    }

    fn admit(&mut self, request: Request) -> hamlyn::Result<()> {
        let kit = self.cache.take(request.from().host.into())?;
        let token = self.next;
        self.next += 1;
        let interest = Interest { messages: true, faults: true, dma: false };
        self.events.register(&kit.endpoint, interest, token)?;
        // What its last user has left there is no request.
        kit.aperture.write(0, &[0; 64])?;
        let end = End::accept(request, &kit.endpoint, kit.aperture, None)?;
        let mut server = Server::new(&end.into())?;
        self.events.register_tripwire(server.tripwire(), token)?;
        self.connections.insert(token, server);
        // A request may have come before there was a Tripwire.
        self.answer(token);
        Ok(())
    }

    /// The call-back of a connection whose Tripwire has fired.
    fn answer(&mut self, token: u64) {
        let Some(server) = self.connections.get_mut(&token) else { return };
        let answered = loop {
            match answer_one(server) {
                Ok(true) => self.requests += 1,
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if answered.is_err() {
            self.dropped += 1;
            self.remove(token);
        }
    }

    /// There is a message or a fault: perhaps the client's end.
    fn look(&mut self, token: u64) {
        let Some(server) = self.connections.get(&token) else { return };
        let connection = server.end().connection();
        let fault = connection.endpoint().take_fault();
        if connection.end().is_some() || fault.is_some() {
            self.answer(token);
            self.remove(token);
        }
    }

    fn remove(&mut self, token: u64) {
        let Some(server) = self.connections.remove(&token) else { return };
        self.left += 1;
        let end = server.end().clone();
        drop(server);
        let host = end.connection().peer().host;
        let unregistered = self.events.unregister(end.connection().endpoint());
        if let (Ok((endpoint, aperture)), Ok(())) = (end.close(), unregistered) {
            self.cache.give(host.into(), Kit::new(endpoint, aperture));
        }
    }
}

fn answer_one(server: &mut Server) -> hamlyn::Result<bool> {
    let Some(call) = server.try_wait()? else { return Ok(false) };
    let mut bytes = vec![0; call.len()];
    call.read(0, &mut bytes)?;
    call.reply(&bytes)?;
    Ok(true)
}

fn sleep_in_poll(events: &EventQueue) -> Outcome {
    let limit = Timespec::try_from(TICK)?;
    match poll(&mut [PollFd::new(&events.as_fd(), PollFlags::IN)], Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

struct Mio {
    poll: mio::Poll,
    ready: mio::Events,
}

impl Mio {
    fn watch(events: &EventQueue) -> Outcome<Self> {
        let poll = mio::Poll::new()?;
        let file = events.as_raw_fd();
        poll.registry().register(&mut SourceFd(&file), mio::Token(0), mio::Interest::READABLE)?;
        Ok(Self { poll, ready: mio::Events::with_capacity(8) })
    }

    fn sleep(&mut self) -> Outcome {
        match self.poll.poll(&mut self.ready, Some(TICK)) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => Err(error.into()),
            _ => Ok(()),
        }
    }
}
