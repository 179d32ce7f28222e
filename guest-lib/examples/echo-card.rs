//! Echo cards: one program sends back every message, another asks and compares.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::echo::{Address, Card, Mailbox};
use hamlyn_examples as common;
use hdrhistogram::Histogram;
use serde_json::json;

/// Sends messages to a mailbox that sends them back
#[derive(Debug, Parser)]
struct Options {
    /// Which card: N of /dev/echoN
    #[arg(long, default_value_t = 0, global = true)]
    card: u32,
    /// Seconds to wait for a message
    #[arg(long, default_value_t = 30, global = true)]
    timeout: u64,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Runs the card's self-tests; in a machine only root may
    SelfTest,
    /// Prints the mailbox it listens at, then sends a number of messages back to their senders
    Serve {
        /// Number of messages
        #[arg(long, default_value_t = 1000)]
        count: u32,
    },
    /// Sends messages of all lengths to itself, through the card and the switch, and verifies what
    /// comes back
    Loopback {
        /// Number of messages
        #[arg(long, default_value_t = 300)]
        count: u32,
    },
    /// Sends messages of all lengths to a mailbox, and verifies what comes back
    Ask {
        /// The host
        #[arg(long)]
        host: u32,
        /// The mailbox there
        #[arg(long)]
        mailbox: u32,
        /// Number of messages
        #[arg(long, default_value_t = 1000)]
        count: u32,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = Card::open(options.card)?;
        let timeout = Duration::from_secs(options.timeout);
        match options.what {
            What::SelfTest => self_test(&card),
            What::Serve { count } => serve(&card, count, timeout),
            What::Loopback { count } => loopback(&card, count, timeout),
            What::Ask { host, mailbox, count } => ask(&card, Address { host, mailbox }, count, timeout),
        }
    })
}

fn self_test(card: &Card) -> Outcome {
    let results = card.self_test()?;
    let vector = results.interrupt.map(|vector| format!("vector {vector} did not arrive"));
    print(&json!({
        "passed": results.passed(),
        "access": results.access.unwrap_or("passed"),
        "dma": results.dma.unwrap_or("passed"),
        "interrupt": vector.as_deref().unwrap_or("passed"),
    }))?;
    if results.passed() { Ok(()) } else { Err("a self-test failed".into()) }
}

fn serve(card: &Card, count: u32, timeout: Duration) -> Outcome {
    let mut mailbox = card.open_mailbox(16)?;
    print(&json!({ "host": card.host()?, "mailbox": mailbox.number() }))?;
    answer(&mut mailbox, count, timeout)?;
    print(&json!({ "answered": count }))
}

fn answer(mailbox: &mut Mailbox, count: u32, timeout: Duration) -> hamlyn::Result<()> {
    for _ in 0..count {
        let message = mailbox.recv_timeout(timeout)?;
        mailbox.send(message.from, &message.data)?;
    }
    Ok(())
}

fn loopback(card: &Card, count: u32, timeout: Duration) -> Outcome {
    let mut mailbox = card.open_mailbox(16)?;
    let host = card.host()?.ok_or("the card has no link")?;
    let own = Address { host, mailbox: mailbox.number() };
    thread::scope(|scope| {
        let answers = scope.spawn(move || answer(&mut mailbox, count, timeout));
        ask(card, own, count, timeout)?;
        Ok(answers.join().map_err(|_| "the answering thread has panicked")??)
    })
}

fn ask(card: &Card, peer: Address, count: u32, timeout: Duration) -> Outcome {
    let mut mailbox = card.open_mailbox(4)?;
    let mut times = Histogram::<u64>::new(3)?;
    for number in 0..count {
        // Covers each length, including 0 and the longest.
        let length = (number as usize * 97) % 1009;
        let question: Vec<u8> = (0..length).map(|byte| (byte as u32 ^ number) as u8).collect();
        let asked = Instant::now();
        mailbox.send(peer, &question)?;
        let answer = mailbox.recv_timeout(timeout)?;
        times.record(asked.elapsed().as_nanos() as u64)?;
        if answer.from != peer || answer.data != question {
            return Err(format!("message {number} of {length} bytes came back as another").into());
        }
    }
    print(&json!({ "round_trips": count, "verified": true, "p50_ns": times.value_at_quantile(0.5) }))
}
