//! Channels over express memory (`docs/express.md`): processes of two machines communicate by loads
//! and stores alone. One side serves under a name, the other connects. Without express memory, the
//! channel uses the card and reports that.

use std::io::{BufRead, Read, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::Polling;
use hamlyn::channel::{self, Card, Channel, Listener, Receiver, Sender};
use hamlyn_examples as common;
use hdrhistogram::Histogram;
use serde_json::json;

/// Exchanges messages through memory that two machines share
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// The name to meet under
    #[arg(long, global = true, default_value = "express")]
    name: String,
    /// Seconds to wait for the peer
    #[arg(long, global = true, default_value_t = 60)]
    timeout: u64,
    /// Bytes of the ring in each direction
    #[arg(long, global = true)]
    capacity: Option<u64>,
    /// Microseconds to poll before this side goes to sleep
    #[arg(long, global = true)]
    poll: Option<u64>,
    /// Uses the card, even if there is express memory
    #[arg(long, global = true)]
    by_card: bool,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Sends back every message until the peer has closed
    Serve,
    /// Measures round trips and verifies every byte; covers all sizes if none is given
    PingPong {
        /// The server's host
        host: u32,
        /// Number of round trips
        #[arg(long, default_value_t = 10_000)]
        count: u64,
        /// Bytes of each message
        #[arg(long)]
        size: Option<usize>,
    },
    /// Receives a stream of bytes and verifies it
    Read,
    /// Sends a stream of bytes
    Write {
        /// The reader's host
        host: u32,
        /// Number of bytes
        #[arg(long, default_value_t = 1 << 20)]
        bytes: usize,
    },
    /// Answers questions: a sum of numbers for each
    Answer,
    /// Asks for sums
    Ask {
        /// The answering host
        host: u32,
        /// Numbers to be summed
        numbers: Vec<u64>,
    },
    /// Sends lines from standard input, and prints the peer's lines; waits for a call if no host is
    /// given
    Chat {
        /// The host to call
        host: Option<u32>,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = Card::from(options.card.open()?);
        match &options.role {
            Role::Serve => serve(options.listen(&card)?, options.patience()),
            Role::PingPong { host, count, size } => {
                ping_pong(options.connect(&card, *host)?, *count, *size, options.patience())
            }
            Role::Read => read(options.listen(&card)?),
            Role::Write { host, bytes } => write(options.connect(&card, *host)?, *bytes),
            Role::Answer => answer(options.listen(&card)?, options.patience()),
            Role::Ask { host, numbers } => ask(options.connect(&card, *host)?, numbers, options.patience()),
            Role::Chat { host: Some(host) } => chat(options.connect(&card, *host)?),
            Role::Chat { host: None } => chat(options.listen(&card)?),
        }
    })
}

impl Options {
    fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    fn channel(&self) -> channel::Options {
        let mut options = channel::Options::default();
        options.capacity = self.capacity.unwrap_or(options.capacity);
        options.by_card = self.by_card;
        options
    }

    fn listen(&self, card: &Card) -> Outcome<Channel> {
        let listener = Listener::bind(card, &self.name, self.channel())?;
        print(&json!({ "listening": self.name }))?;
        self.met(listener.accept_timeout(self.patience())?)
    }

    fn connect(&self, card: &Card, host: u32) -> Outcome<Channel> {
        self.met(Channel::connect_timeout(card, host, &self.name, self.channel(), self.patience())?)
    }

    fn met(&self, mut channel: Channel) -> Outcome<Channel> {
        if let Some(poll) = self.poll {
            let polling = Polling::up_to(Duration::from_micros(poll));
            channel.sender.set_polling(polling);
            channel.receiver.set_polling(polling);
        }
        print(&json!({ "express": channel.is_express(), "longest": channel.sender.longest() }))?;
        Ok(channel)
    }
}

fn serve(channel: Channel, patience: Duration) -> Outcome {
    let Channel { mut sender, mut receiver } = channel;
    let (mut echoed, mut bytes) = (0_u64, Vec::new());
    loop {
        match receiver.recv_timeout(patience) {
            Ok(Some(message)) => {
                bytes.resize(message.len(), 0);
                message.read(0, &mut bytes)?;
            }
            Ok(None) => break,
            Err(error) => {
                print(&json!({ "echoed": echoed, "lost": error.to_string() }))?;
                return Err(error.into());
            }
        }
        sender.send_timeout(&bytes, patience)?;
        echoed += 1;
    }
    sender.close_timeout(patience)?;
    print(&json!({ "echoed": echoed }))
}

fn ping_pong(channel: Channel, count: u64, size: Option<usize>, patience: Duration) -> Outcome {
    let Channel { mut sender, mut receiver } = channel;
    let longest = sender.longest();
    let mut times = Histogram::<u64>::new(3)?;
    let (mut sent, mut back) = (Vec::new(), Vec::new());
    for round in 0..count {
        // All sizes up to a few words, then larger steps.
        let any = if round < 70 { round as usize } else { round as usize * 997 % (longest + 1) };
        sent.resize(size.unwrap_or(any), 0);
        common::fill_pattern(round, 0, &mut sent);
        let start = Instant::now();
        sender.send_timeout(&sent, patience)?;
        let message = receiver.recv_timeout(patience)?.ok_or("the server has closed")?;
        back.resize(message.len(), 0);
        message.read(0, &mut back)?;
        drop(message);
        times.record(start.elapsed().as_nanos() as u64)?;
        if back != sent {
            return Err(format!("message {round} comes back with other bytes").into());
        }
    }
    sender.close_timeout(patience)?;
    if receiver.recv_timeout(patience)?.is_some() {
        return Err("more came back than was sent".into());
    }
    print(&json!({
        "round_trips": times.len(),
        "min_ns": times.min(),
        "p50_ns": times.value_at_quantile(0.5),
        "p99_ns": times.value_at_quantile(0.99),
        "max_ns": times.max(),
    }))
}

fn read(mut channel: Channel) -> Outcome {
    let mut bytes = Vec::new();
    channel.receiver.read_to_end(&mut bytes)?;
    match common::find_difference(1, 0, &bytes) {
        Some(at) => Err(format!("byte {at} is wrong").into()),
        None => print(&json!({ "received": bytes.len(), "verified": true })),
    }
}

fn write(mut channel: Channel, bytes: usize) -> Outcome {
    let mut data = vec![0; bytes];
    common::fill_pattern(1, 0, &mut data);
    let start = Instant::now();
    channel.sender.write_all(&data)?;
    channel.sender.close()?;
    let rate = bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
    print(&json!({ "sent": bytes, "mb_per_s": (rate * 10.0).round() / 10.0 }))
}

/// Answers questions. A question consists of 8-byte numbers and is built where it is read; its
/// answer is one number.
fn answer(channel: Channel, patience: Duration) -> Outcome {
    let Channel { mut sender, mut receiver } = channel;
    let mut answered = 0_u64;
    while let Some(question) = receiver.recv_timeout(patience)? {
        // Copied before it is read, because the asker may change it.
        let numbers = question.to_vec()?;
        drop(question);
        let sum = numbers.chunks(8).fold(0_u64, |sum, bytes| sum.wrapping_add(number(bytes)));
        sender.send_timeout(&sum.to_le_bytes(), patience)?;
        answered += 1;
    }
    sender.close_timeout(patience)?;
    print(&json!({ "answered": answered }))
}

fn ask(channel: Channel, numbers: &[u64], patience: Duration) -> Outcome {
    let Channel { mut sender, mut receiver } = channel;
    let mut question = sender.reserve_timeout(8 * numbers.len(), patience)?;
    for (index, number) in numbers.iter().enumerate() {
        question.write(8 * index, &number.to_le_bytes())?;
    }
    question.commit()?;
    let answer = receiver.recv_timeout(patience)?.map(|answer| answer.to_vec()).transpose()?;
    let sum = answer.map(|answer| number(&answer));
    sender.close_timeout(patience)?;
    print(&json!({ "sum": sum }))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn chat(channel: Channel) -> Outcome {
    let Channel { sender, receiver } = channel;
    let sender = Arc::new(Mutex::new(Some(sender)));
    let talking = sender.clone();
    let talking = std::thread::spawn(move || talk(&talking).map_err(|error| error.to_string()));
    listen(receiver)?;
    // The peer has left, so further input has no receiver.
    hang_up(&sender)?;
    if talking.is_finished() {
        talking.join().map_err(|_| "talking failed")??;
    }
    Ok(())
}

fn talk(sender: &Mutex<Option<Sender>>) -> Outcome {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match &mut *sender.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(sender) => sender.send(line.as_bytes())?,
            None => return Ok(()),
        }
    }
    hang_up(sender)
}

/// Closes the sender, unless the other thread has. A sender that is only dropped looks like one
/// whose process died.
fn hang_up(sender: &Mutex<Option<Sender>>) -> Outcome {
    let sender = sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    sender.map_or(Ok(()), |sender| Ok(sender.close()?))
}

fn listen(mut receiver: Receiver) -> Outcome {
    while let Some(line) = receiver.recv()? {
        print(&json!({ "said": String::from_utf8_lossy(&line.to_vec()?) }))?;
    }
    Ok(())
}
