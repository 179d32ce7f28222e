//! Streams by name (sections 3.3 and 6.3): one thread serves any number of clients, and sleeps in
//! `mio` or `tokio` while all are idle. Each client gets back what it sends.

use std::io::BufRead;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::Manager;
use hamlyn::protocol::stream::StreamPair;
use hamlyn_examples as common;
use serde_json::json;

mod in_mio;
mod in_tokio;
mod server;

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
        /// Number of clients to serve before it exits
        #[arg(long, default_value_t = 1)]
        clients: usize,
        /// Sleeps in tokio, not in mio
        #[arg(long)]
        tokio: bool,
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
    /// Reads numbers from standard input, one per line; connects that many times, sends a few bytes
    /// and verifies what comes back
    Churn {
        /// The server's host id
        #[arg(long)]
        host: u32,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let manager = Manager::create(&options.card.open()?)?;
        match options.role {
            Role::Serve { clients, tokio: false } => in_mio::serve(&manager, &options.name, clients),
            Role::Serve { clients, tokio: true } => in_tokio::serve(&manager, &options.name, clients),
            Role::Call { host, bytes, size, timeout } => {
                let pair =
                    StreamPair::connect_timeout(&manager, host, &options.name, common::seconds(timeout))?;
                print(&json!({ "connected": host }))?;
                call(pair, bytes, size, timeout)
            }
            Role::Churn { host } => {
                for line in std::io::stdin().lock().lines() {
                    churn(&manager, (host, &options.name), line?.parse()?)?;
                }
                Ok(())
            }
        }
    })
}

/// Sends in one thread and receives in another: either may have to wait for the server.
fn call(pair: StreamPair, bytes: usize, size: usize, timeout: u64) -> Outcome {
    let StreamPair { mut sender, mut receiver } = pair;
    let sending = std::thread::spawn(move || {
        let mut part = vec![0; size.max(1)];
        for offset in (0..bytes).step_by(size.max(1)) {
            let part = &mut part[..size.max(1).min(bytes - offset)];
            common::fill_pattern(1, offset, part);
            sender.send(part)?;
        }
        sender.close_timeout(common::seconds(timeout))
    });
    let mut got = 0;
    loop {
        let number = match receiver.recv_timeout(common::seconds(timeout)) {
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

fn churn(manager: &Manager, (host, name): (u32, &str), count: u32) -> Outcome {
    let patience = common::seconds(60);
    for number in 0..count {
        let mut pair = StreamPair::connect_timeout(manager, host, name, patience)?;
        let mut sent = [0; 100];
        common::fill_pattern(number.into(), 0, &mut sent);
        pair.sender.send(&sent)?;
        pair.sender.close_timeout(patience)?;
        let mut came = Vec::new();
        while let Some(record) = pair.receiver.recv_timeout(patience)? {
            came.extend(record.to_vec());
            let number = record.number();
            pair.receiver.release(number)?;
        }
        if came != sent {
            return Err(format!("what came back by connection {number} is wrong").into());
        }
    }
    print(&json!({ "made": count }))
}
