//! Back-pressure (section 2.8): if the fabric cannot take more, the sender's work queue fills up
//! and `try_send` fails. No message is lost.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::{Arrival, Card, Handle, Message, SendBuffer, Terminus, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Places in the receiver's memory; message *n* goes to place *n* modulo this.
const PLACES: u32 = 64;
/// Seed of the test pattern.
const SEED: u64 = 0xbac_c106;

/// Fills a work queue completely
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Number of messages
    #[arg(long, global = true, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    count: u32,
    /// Bytes in a message: at most one packet
    #[arg(long, global = true, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    size: u32,
    /// Seconds to wait for a message
    #[arg(long, global = true, default_value_t = 30)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a ticket, receives all messages and verifies that none is lost
    Receive {
        /// Microseconds spent on each message
        #[arg(long, default_value_t = 0)]
        delay_us: u64,
    },
    /// Sends without ever blocking inside the library; reports when the queue is full for the first
    /// time
    Send {
        /// The receiver's ticket
        #[arg(long)]
        ticket: Ticket,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open()?;
        match options.role {
            Role::Receive { delay_us } => receive(&card, &options, Duration::from_micros(delay_us)),
            Role::Send { ticket } => send(&card, &options, &ticket),
        }
    })
}

fn receive(card: &Card, options: &Options, delay: Duration) -> Outcome {
    let (count, size) = (options.count, options.size as usize);
    let area = card.create_area(PLACES as usize * size)?;
    let queue = card.create_queue(count.max(2))?;
    let slot = card.slot(&area).queue(&queue).create()?;
    print(&json!({ "ticket": slot.fast_ticket()?.to_string() }))?;
    let mut seen = vec![false; count as usize];
    for _ in 0..count {
        let arrived = queue.recv_timeout(Duration::from_secs(options.timeout))?;
        let Arrival::Fast(number) = arrived.arrival else { return Err("a message with metadata".into()) };
        match seen.get_mut(number as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(format!("message {number} came twice, or was never sent").into()),
        }
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }
    let mut place = vec![0; size];
    for number in 0..count.min(PLACES) {
        slot.read(number as usize * size, &mut place)?;
        if let Some(byte) = common::find_difference(SEED + u64::from(number), 0, &place) {
            return Err(format!("byte {byte} of place {number} is wrong").into());
        }
    }
    print(&json!({ "received": count, "lost": queue.overruns().1, "verified": true }))
}

fn send(card: &Card, options: &Options, ticket: &Ticket) -> Outcome {
    let terminus = card.create_terminus()?;
    let size = options.size as usize;
    let mut buffer = terminus.create_send_buffer(PLACES as usize * size)?;
    let mut bytes = vec![0; size];
    for place in 0..PLACES {
        common::fill_pattern(SEED + u64::from(place), 0, &mut bytes);
        buffer.write(place as usize * size, &bytes)?;
    }
    let (mut would_block, mut last) = (0_u64, None);
    for number in 0..options.count {
        last = Some(post(&terminus, ticket, &buffer, number, options, &mut would_block)?);
    }
    last.map_or(Ok(()), |handle| handle.wait_timeout(common::seconds(options.timeout)))?;
    print(&json!({ "sent": options.count, "would_block": would_block }))
}

/// Posts message `number`. Retries while all entries are in use.
fn post(
    terminus: &Terminus,
    ticket: &Ticket,
    buffer: &SendBuffer,
    number: u32,
    options: &Options,
    would_block: &mut u64,
) -> Outcome<Handle> {
    let size = options.size as usize;
    let place = number % PLACES * options.size;
    let start = Instant::now();
    let message = Message::to(ticket).offset(place).word(number);
    loop {
        match terminus.try_send(&message, buffer.piece(place as usize, size)?) {
            Err(error) if error.is_would_block() && start.elapsed().as_secs() < options.timeout => {
                if *would_block == 0 {
                    print(&json!({ "held_up": number }))?;
                }
                *would_block += 1;
            }
            posted => return Ok(posted?),
        }
        std::thread::yield_now();
    }
}
