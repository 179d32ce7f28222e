//! A complete key-value server: any number of clients in one thread, each with a channel, over a
//! card of any model. docs/programming.md explains its essential parts.
//!
//! `session.rs` serves one client and `server.rs` serves all; both are independent of cards.
//! `on_channel.rs` accepts clients.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::channel::{self, Channel, Listener};
use hamlyn_examples as common;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::crowd::Plan;
use crate::on_channel::OnChannel;
use crate::on_tcp::OnTcp;
use crate::server::Limits;

mod crowd;
mod news;
mod on_channel;
mod on_tcp;
mod server;
mod session;
mod wire;

/// Keeps values under keys, for any number of clients
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// The server's name
    #[arg(long, global = true, default_value = "kv")]
    name: String,
    /// Instead of cards: the server's address for TCP
    #[arg(long, global = true)]
    tcp: Option<SocketAddr>,
    /// Bytes of a channel's ring in each direction, in whole pages
    #[arg(long, global = true, default_value_t = 8192)]
    capacity: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serves
    Serve {
        /// Maximum number of clients at a time; more are refused
        #[arg(long, default_value_t = 1000)]
        clients: usize,
        /// Milliseconds that an answer may wait for its client
        #[arg(long, default_value_t = 10_000)]
        patience: u64,
        /// Bytes of the longest value
        #[arg(long, default_value_t = 1 << 20)]
        value: usize,
        /// Number of ended clients after which the server exits
        #[arg(long, default_value_t = u64::MAX)]
        until: u64,
    },
    /// Sends requests as many clients
    Crowd {
        /// The server's host id
        #[arg(long, default_value_t = 0)]
        host: u32,
        #[command(flatten)]
        plan: Plan,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        match &options.role {
            Role::Serve { clients, patience, value, until } => {
                let limits = Limits {
                    clients: options.clamp_to_files(*clients)?,
                    patience: Duration::from_millis(*patience),
                    value: *value,
                };
                serve(&options, limits, *until)?;
                print(&json!({ "served": until, "cpu_ns": crowd::processor_time() }))
            }
            Role::Crowd { host, plan } => {
                options.clamp_to_files(plan.clients)?;
                crowd(&options, *host, plan)
            }
        }
    })
}

fn serve(options: &Options, limits: Limits, until: u64) -> Outcome {
    if let Some(address) = options.tcp {
        let listener = on_tcp::listen(address)?;
        print(&json!({ "listening": listener.local_addr()?.to_string() }))?;
        return server::serve(&listener, limits, until);
    }
    let listener = Listener::bind(&options.card.open_any()?, &options.name, options.channel())?;
    print(&json!({ "listening": options.name }))?;
    server::serve(&listener, limits, until)
}

fn crowd(options: &Options, host: u32, plan: &Plan) -> Outcome {
    if let Some(address) = options.tcp {
        let streams = (0..plan.clients).map(|_| Ok(OnTcp::connect(address)?));
        return print(&crowd::run(streams.collect::<Outcome<_>>()?, plan)?);
    }
    let (card, name, channel) = (options.card.open_any()?, &options.name, options.channel());
    let connect = |number| {
        let connected = Channel::connect_timeout(&card, host, name, channel, Duration::from_secs(60));
        connected.map(OnChannel::from).map_err(|error| format!("client {number}: {error}").into())
    };
    print(&crowd::run((0..plan.clients).map(connect).collect::<Outcome<_>>()?, plan)?)
}

impl Options {
    fn channel(&self) -> channel::Options {
        let mut options = channel::Options::default();
        options.capacity = self.capacity;
        options
    }

    /// Raises the limit on open files as far as the system allows, because each client needs some.
    /// Returns the number of clients that it is enough for.
    fn clamp_to_files(&self, clients: usize) -> Outcome<usize> {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
        let each = if self.tcp.is_some() { 1 } else { on_channel::FILES };
        let most = limit.maximum.map_or(u64::MAX, |files| files.saturating_sub(OTHER_FILES) / each);
        Ok(clients.min(usize::try_from(most).unwrap_or(usize::MAX)))
    }
}

/// Files that a program has besides its clients'.
const OTHER_FILES: u64 = 32;
