//! Remote procedure calls: a server with any number of clients, and clients that check every
//! result; see docs/rpc.md.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::channel::Card;
use hamlyn_examples as common;
use hamlyn_examples::calls::{CallError, Client, Event, Server};
use serde_json::json;

/// Calls procedures of another process
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// The server's name
    #[arg(long, global = true, default_value = "rpc")]
    name: String,
    /// Seconds to wait for a result
    #[arg(long, global = true, default_value_t = 30)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serves until standard input ends: echo returns its arguments, sum adds 4-byte numbers, fail
    /// always fails
    Serve,
    /// Calls one procedure, and prints the result as text
    Call {
        /// The server's host id
        #[arg(long, default_value_t = 0)]
        host: u32,
        /// The procedure
        procedure: String,
        /// Its argument
        #[arg(default_value = "")]
        argument: String,
    },
    /// Calls many times, with arguments and results of many sizes, several calls at once, and
    /// checks every result
    Check {
        /// The server's host id
        #[arg(long, default_value_t = 0)]
        host: u32,
        /// Number of rounds
        #[arg(long, default_value_t = 20)]
        rounds: u64,
        /// Maximum number of argument bytes, up to 16777216
        #[arg(long, default_value_t = 1 << 20)]
        bytes: usize,
    },
    /// Calls until the server is lost, and prints the reason
    Watch {
        /// The server's host id
        #[arg(long, default_value_t = 0)]
        host: u32,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open_any()?;
        let timeout = Duration::from_secs(options.timeout);
        let client = |host| Client::connect(&card, host, &options.name);
        match &options.role {
            Role::Serve => serve(&card, &options),
            Role::Call { host, procedure, argument } => {
                let mut client = client(*host)?;
                let result = client.call(procedure, argument.as_bytes(), timeout)?;
                print(&json!({ "result": String::from_utf8_lossy(&result) }))?;
                Ok(client.close(timeout)?)
            }
            Role::Check { host, rounds, bytes } => check(client(*host)?, *rounds, *bytes, timeout),
            Role::Watch { host } => watch(client(*host)?, timeout),
        }
    })
}

fn serve(card: &Card, options: &Options) -> Outcome {
    let (mut server, ended) = (Server::open(card, &options.name)?, common::input_ended());
    print(&json!({ "name": options.name, "host": card.host()? }))?;
    let (mut served, mut gone) = (0_u64, 0_u64);
    while !ended.load(Ordering::Acquire) {
        match server.next(Duration::from_millis(100))? {
            Some(Event::Called(call)) => {
                served += 1;
                let result = carry_out(&call.procedure, call.arguments);
                server.answer(call.asker, result.as_deref().map_err(String::as_str));
            }
            Some(Event::Gone { reason, .. }) => {
                gone += 1;
                print(&json!({ "gone": reason }))?;
            }
            None => {}
        }
    }
    print(&json!({ "served": served, "gone": gone }))
}

fn carry_out(procedure: &str, arguments: Vec<u8>) -> Result<Vec<u8>, String> {
    match procedure {
        "echo" => Ok(arguments),
        "sum" => {
            let numbers = arguments.chunks_exact(4);
            if !numbers.remainder().is_empty() {
                return Err(format!("{} bytes of arguments are not a multiple of 4", arguments.len()));
            }
            let value =
                |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            Ok(numbers.map(value).sum::<u64>().to_le_bytes().to_vec())
        }
        "fail" => Err("this procedure never works".to_owned()),
        _ => Err(format!("there is no procedure {procedure:?}")),
    }
}

/// Makes calls of all sizes and collects their results in another order; also makes calls that must
/// fail.
fn check(mut client: Client, rounds: u64, bytes: usize, timeout: Duration) -> Outcome {
    let mut calls = 0_u64;
    let mut fastest = Duration::MAX;
    for round in 0..rounds {
        let sizes = [0, 1, 4, 1000, 16 * 1024 - 12, 16 * 1024, bytes / 2, bytes];
        let mut under_way = Vec::new();
        for (index, size) in sizes.into_iter().enumerate() {
            let mut arguments = vec![0; size.min(bytes)];
            common::fill_pattern(round, index, &mut arguments);
            under_way.push((client.begin("echo", &arguments)?, arguments));
        }
        for (number, arguments) in under_way.into_iter().rev() {
            if client.finish(number, timeout)? != arguments {
                return Err(format!("{} bytes came back changed", arguments.len()).into());
            }
            calls += 1;
        }
        let start = Instant::now();
        let sum = client.call("sum", &[1, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], timeout)?;
        fastest = fastest.min(start.elapsed());
        if sum != (3 + u64::from(u32::MAX)).to_le_bytes() {
            return Err("the sum is wrong".into());
        }
        calls += 1;
    }
    let mut errors = Vec::new();
    for (procedure, arguments) in [("fail", &[][..]), ("absent", &[]), ("sum", &[1])] {
        match client.call(procedure, arguments, timeout) {
            Err(CallError::Refused(reason)) => errors.push(reason),
            other => return Err(format!("{procedure} gave {other:?}, not an error").into()),
        }
    }
    client.close(timeout)?;
    print(
        &json!({ "calls": calls, "verified": true, "errors": errors, "call_us": fastest.as_micros() as u64 }),
    )
}

fn watch(mut client: Client, timeout: Duration) -> Outcome {
    let mut calls = 0_u64;
    loop {
        match client.call("echo", b"still there?", timeout) {
            Ok(_) => calls += 1,
            Err(CallError::Lost(lost)) => {
                return print(&json!({ "calls": calls, "lost": lost.to_string() }));
            }
            Err(error) => return Err(error.into()),
        }
        if calls == 1 {
            print(&json!({ "watching": true }))?;
        }
    }
}
