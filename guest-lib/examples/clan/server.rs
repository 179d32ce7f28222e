//! The event-driven server of section 5.3.
//!
//! The server has one loop ([`super::sleep`]), which takes events and dispatches them to their
//! connections. When a client connects, the server sets a Tripwire where its requests arrive, and
//! registers it with the queue. Endpoints and their memory are reused for later clients of the same
//! host.

use std::collections::HashMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use hamlyn::clan::programs::End;
use hamlyn::clan::programs::rpc::Server;
use hamlyn::clan::{
    Card, Endpoint, EndpointCache, Event, EventQueue, Interest, Kit, Request, Rights, What as Happened,
};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::sleep::{self, Sleep};
use crate::{clients, meet};

/// Bytes of each end's memory.
const LENGTH: usize = 256;
/// Number of event sources that the queue has room for.
const RECORDS: u32 = 4096;
/// Maximum number of clients: each has three event sources, and the listener has one.
const CLIENTS: usize = (RECORDS as usize - 1) / 3;
/// Maximum number of clients of one host.
const CLIENTS_OF_HOST: usize = CLIENTS / 4 * 3;
/// Token of connection requests.
const LISTENER: u64 = u64::MAX;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Serves until a number of clients have left, or standard input ends
    Serve {
        /// Number of clients to serve
        #[arg(long, default_value_t = usize::MAX)]
        clients: usize,
        /// Microseconds to poll before sleeping (section 5.3)
        #[arg(long, default_value_t = 15)]
        polling: u64,
        /// Maximum number of clients of one host at once; more are refused, to leave places for
        /// others
        #[arg(long, default_value_t = CLIENTS_OF_HOST)]
        of_host: usize,
        /// What it sleeps in
        #[arg(long, value_enum, default_value_t = Sleep::Poll)]
        sleep: Sleep,
    },
    /// Sends requests on several connections, at random
    Ask(clients::Options),
}

pub(crate) fn run(card: &Card, meet: &meet::Options, options: &Options) -> Outcome {
    match &options.what {
        &What::Serve { clients, polling, of_host, sleep } => {
            let listener = meet.listen(card)?;
            let (mut serving, events) = Serving::new(card, listener, (clients, of_host))?;
            sleep::run(&mut serving, events, Duration::from_micros(polling), sleep)?;
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

pub(crate) struct Serving {
    listener: Endpoint,
    clients: usize,
    /// Maximum number of clients of one host.
    of_host: usize,
    cache: EndpointCache,
    connections: HashMap<u64, Server>,
    next: u64,
    requests: u64,
    left: usize,
    /// Number of those that were dropped for a protocol violation.
    dropped: usize,
    pub(crate) sleeps: u64,
}

impl Serving {
    fn new(
        card: &Card,
        listener: Endpoint,
        (clients, of_host): (usize, usize),
    ) -> Outcome<(Self, EventQueue)> {
        let mut events = card.events(RECORDS)?;
        events.register(&listener, Interest { messages: true, ..Interest::default() }, LISTENER)?;
        let builder = card.endpoint_builder().tripwires(1).requests(16);
        let cache = EndpointCache::new(card, builder, LENGTH, Rights::Write, 64);
        let connections = HashMap::new();
        let serving = Self {
            listener,
            clients,
            of_host,
            cache,
            connections,
            next: 0,
            requests: 0,
            left: 0,
            dropped: 0,
            sleeps: 0,
        };
        Ok((serving, events))
    }

    /// Returns whether the requested number of clients have left.
    pub(crate) fn is_done(&self) -> bool {
        self.left >= self.clients
    }

    /// The call-back of an event taken from the queue.
    pub(crate) fn happened(&mut self, events: &mut EventQueue, event: Event) -> Outcome {
        match (event.token, event.what) {
            (LISTENER, _) => {
                while let Some(request) = self.listener.try_accept() {
                    // A request that cannot be admitted does not affect other clients.
                    if let Err(error) = self.admit(events, request) {
                        print(&json!({ "not_admitted": error.to_string() }))?;
                    }
                }
            }
            (token, Happened::Tripwire(_)) => self.answer(events, token),
            (token, _) => self.look(events, token),
        }
        Ok(())
    }

    /// Returns whether one more client of `host` may be admitted.
    fn has_place(&self, host: u32) -> bool {
        let hosts = self.connections.values().map(|server| server.end().connection().peer().host);
        let of_host = hosts.filter(|other| *other == host).count();
        self.connections.len() < CLIENTS && of_host < self.of_host
    }

    fn admit(&mut self, events: &mut EventQueue, request: Request) -> hamlyn::Result<()> {
        if !self.has_place(request.from().host) {
            return request.refuse(b"too many");
        }
        let kit = self.cache.take(request.from().host.into())?;
        let token = self.next;
        self.next += 1;
        let interest = Interest { messages: true, faults: true, dma: false };
        events.register(&kit.endpoint, interest, token)?;
        // Clears what the last user has left there, so that it is not taken as a request.
        kit.aperture.write(0, &[0; 64])?;
        let end = End::accept(request, &kit.endpoint, kit.aperture)?;
        let mut server = Server::new(&end.into())?;
        events.register_tripwire(server.tripwire(), token)?;
        self.connections.insert(token, server);
        // A request may have arrived before the Tripwire was set.
        self.answer(events, token);
        Ok(())
    }

    /// The call-back of a connection whose Tripwire has fired.
    fn answer(&mut self, events: &mut EventQueue, token: u64) {
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
            self.remove(events, token);
        }
    }

    /// Handles a message or a fault, which may be the client's end.
    fn look(&mut self, events: &mut EventQueue, token: u64) {
        let Some(server) = self.connections.get(&token) else { return };
        let connection = server.end().connection();
        let fault = connection.endpoint().try_recv_fault();
        if connection.end().is_some() || fault.is_some() {
            self.answer(events, token);
            self.remove(events, token);
        }
    }

    fn remove(&mut self, events: &mut EventQueue, token: u64) {
        let Some(server) = self.connections.remove(&token) else { return };
        self.left += 1;
        let end = server.end().clone();
        drop(server);
        let host = end.connection().peer().host;
        let unregistered = events.unregister(end.connection().endpoint());
        if let (Ok((endpoint, aperture)), Ok(())) = (end.close(), unregistered) {
            self.cache.give(host.into(), Kit::new(endpoint, aperture));
        }
    }
}

fn answer_one(server: &mut Server) -> hamlyn::Result<bool> {
    let Some(call) = server.try_recv()? else { return Ok(false) };
    let mut bytes = vec![0; call.len()];
    call.read(0, &mut bytes)?;
    call.reply(&bytes)?;
    Ok(true)
}
