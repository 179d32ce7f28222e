//! A stream (section 3.3): bytes in order, from small sends that are coalesced and from buffers
//! that are sent as they are. The receiver verifies every byte.

use std::io::Read;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::protocol::stream::{StreamOptions, StreamReceiver, StreamSender};
use hamlyn::{Manager, Seed};
use hamlyn_examples as common;
use serde_json::json;

/// Sends a stream of bytes, or receives and verifies it
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Seconds to wait for the other end
    #[arg(long, global = true, default_value_t = 60)]
    timeout: u64,
    /// Seed of the bytes' pattern
    #[arg(long, global = true, default_value_t = 1)]
    pattern: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a seed, receives until the sender closes, and verifies every byte
    Receive {
        /// The longest record, in bytes
        #[arg(long, default_value_t = 16 * 1024)]
        record_size: u32,
        /// Initial number of buffers
        #[arg(long, default_value_t = 16)]
        records: u32,
        /// Number of records to hold before all of them are released
        #[arg(long, default_value_t = 1)]
        hold: u32,
        /// Milliseconds between two records, so that the sender has to wait
        #[arg(long, default_value_t = 0)]
        pause: u64,
    },
    /// Receives until the sender closes, by std::io::Read
    Read,
    /// Sends bytes and closes
    Send {
        /// The receiver's seed
        #[arg(long)]
        seed: Seed,
        /// Total number of bytes
        #[arg(long, default_value_t = 1 << 20)]
        bytes: usize,
        /// Bytes of each send
        #[arg(long, default_value_t = 1000)]
        size: usize,
        /// Flushes after each send
        #[arg(long)]
        flush: bool,
        /// Sends a buffer as it is instead of copying
        #[arg(long)]
        buffer: bool,
        /// Exits without closing
        #[arg(long)]
        abandon: bool,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let manager = Manager::create(&options.card.open()?)?;
        match options.role {
            Role::Receive { record_size, records, hold, pause } => {
                let all = StreamOptions { record_size, records, ..StreamOptions::default() };
                let stream = StreamReceiver::create_with(&manager, all)?;
                receive(stream, &options, u64::from(hold), Duration::from_millis(pause))
            }
            Role::Read => read(StreamReceiver::create(&manager)?, &options),
            Role::Send { .. } => send(&manager, &options),
        }
    })
}

fn receive(mut stream: StreamReceiver, options: &Options, hold: u64, pause: Duration) -> Outcome {
    print(&json!({ "seed": stream.make_seed()?.to_string() }))?;
    let (mut bytes, mut records, mut held) = (0, 0, 0);
    loop {
        let number = match stream.recv_timeout(common::seconds(options.timeout)) {
            Ok(Some(record)) => {
                let data = record.to_vec();
                verify(options, bytes, &data)?;
                bytes += data.len();
                record.number()
            }
            Ok(None) => break,
            Err(error) => {
                print(&json!({ "received": bytes, "records": records, "lost": error.to_string() }))?;
                return Err(error.into());
            }
        };
        (records, held) = (records + 1, held + 1);
        if held >= hold {
            stream.release(number)?;
            held = 0;
        }
        std::thread::sleep(pause);
    }
    print(&json!({ "received": bytes, "records": records, "verified": true }))
}

fn read(mut stream: StreamReceiver, options: &Options) -> Outcome {
    print(&json!({ "seed": stream.make_seed()?.to_string() }))?;
    let mut data = Vec::new();
    stream.read_to_end(&mut data)?;
    verify(options, 0, &data)?;
    print(&json!({ "received": data.len(), "verified": true }))
}

fn verify(options: &Options, offset: usize, data: &[u8]) -> Outcome {
    match common::find_difference(options.pattern, offset, data) {
        Some(at) => Err(format!("byte {} is wrong", offset + at).into()),
        None => Ok(()),
    }
}

fn send(manager: &Manager, options: &Options) -> Outcome {
    let Role::Send { seed, bytes, size, flush, buffer, abandon } = &options.role else { return Ok(()) };
    let mut stream = StreamSender::from_seed(manager, seed)?;
    let timeout = common::seconds(options.timeout);
    let size = (*size).max(1);
    let mut part = vec![0; size];
    let start = Instant::now();
    for offset in (0..*bytes).step_by(size) {
        let part = &mut part[..size.min(bytes - offset)];
        common::fill_pattern(options.pattern, offset, part);
        if *buffer {
            let mut memory = manager.allocate(part.len())?;
            memory.write(0, part)?;
            // Dropped: its memory returns to the manager as soon as the card has gathered it.
            drop(stream.send_buffer_timeout(memory, timeout)?);
        } else {
            stream.send_timeout(part, timeout)?;
        }
        if *flush {
            stream.flush_timeout(timeout)?;
        }
    }
    if *abandon {
        stream.flush_timeout(timeout)?;
        drop(stream);
        // Waits until the message that reports the drop is sent, before the manager is dropped.
        manager.terminus().finish_timeout(timeout)?;
        return print(&json!({ "abandoned": bytes }));
    }
    stream.close_timeout(timeout)?;
    let time = start.elapsed();
    let rate = *bytes as f64 / 1e6 / time.as_secs_f64();
    print(&json!({ "sent": bytes, "ns": time.as_nanos() as u64, "mb_per_s": (rate * 10.0).round() / 10.0 }))
}
