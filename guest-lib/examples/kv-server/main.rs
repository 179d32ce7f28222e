//! A complete key-value server: any number of clients in one thread, each with one stream in each
//! direction (sections 3.3 and 6.3). docs/programming.md explains its essential parts.
//!
//! `session.rs` serves one client and is independent of cards; `server.rs` serves all clients;
//! `on_card.rs` accepts clients and waits.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::Manager;
use hamlyn::protocol::stream::StreamOptions;
use hamlyn_examples as common;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::crowd::Plan;
use crate::server::{Limits, Server};

mod crowd;
mod on_card;
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
    /// Instead of names: seeds on standard output and input, which must be passed between the
    /// programs
    #[arg(long, global = true)]
    by_hand: bool,
    /// Instead of cards: the server's address for TCP
    #[arg(long, global = true, conflicts_with = "by_hand")]
    tcp: Option<SocketAddr>,
    /// Bytes of each record of a stream to this side
    #[arg(long, global = true, default_value_t = 2048)]
    record_size: u32,
    /// Records of a stream to this side
    #[arg(long, global = true, default_value_t = 4)]
    records: u32,
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
                    clients: clamp_to_files(*clients)?,
                    patience: Duration::from_millis(*patience),
                    value: *value,
                };
                serve(&options, limits, *until)?;
                print(&json!({ "served": until, "cpu_ns": crowd::processor_time() }))
            }
            Role::Crowd { host, plan } => {
                clamp_to_files(plan.clients)?;
                crowd(&options, *host, plan)
            }
        }
    })
}

fn serve(options: &Options, limits: Limits, until: u64) -> Outcome {
    if let Some(address) = options.tcp {
        return on_tcp::serve(address, (Server::new(limits), until));
    }
    let manager = Manager::create(&options.card.open()?)?;
    let name = (!options.by_hand).then_some(&*options.name);
    on_card::serve(&manager, name, options.stream(), (Server::new(limits), until))
}

fn crowd(options: &Options, host: u32, plan: &Plan) -> Outcome {
    if let Some(address) = options.tcp {
        let mut news = on_tcp::News::new()?;
        let mut streams = Vec::new();
        for number in 0..plan.clients {
            let stream = on_tcp::connect(address)?;
            news.add(number as u64, &stream)?;
            streams.push(stream);
        }
        return print(&crowd::run(streams, plan, |limit| news.wait(limit))?);
    }
    let manager = Manager::create(&options.card.open()?)?;
    let to = (!options.by_hand).then_some((host, &*options.name));
    let mut news = on_card::News::of(&manager)?;
    let mut streams = Vec::new();
    for number in 0..plan.clients as u64 {
        let pair = on_card::connect(&manager, to, options.stream(), common::seconds(60))
            .map_err(|error| format!("client {number}: {error}"))?;
        news.watch_end(number, &pair)?;
        streams.push(on_card::OnCard::new(pair, number));
    }
    print(&crowd::run(streams, plan, |limit| news.wait(limit))?)
}

impl Options {
    fn stream(&self) -> StreamOptions {
        // The number of records stays fixed, so that a client's cost is known beforehand.
        let (record_size, records) = (self.record_size, self.records);
        StreamOptions { record_size, records, max_records: records }
    }
}

/// Files that a program has besides its clients'.
const OTHER_FILES: u64 = 32;

/// Raises the limit on open files as far as the system allows, because each client is a file.
/// Returns the number of clients that it is enough for.
fn clamp_to_files(clients: usize) -> Outcome<usize> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let most = limit.maximum.map_or(u64::MAX, |files| files.saturating_sub(OTHER_FILES));
    Ok(clients.min(usize::try_from(most).unwrap_or(usize::MAX)))
}
