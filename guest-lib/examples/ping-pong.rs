//! Round trips by tagged remote write (section 3.3): one side serves, the other measures.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Card, Handle, Polling, SendBuffer, Ticket};
use hamlyn_examples as common;
use hdrhistogram::Histogram;
use serde_json::json;

/// Offset of the payload in the buffer, after the announcement.
const PAYLOAD: u32 = 64;
/// Tag of the announcement: count and size, 8 bytes each.
const ANNOUNCEMENT: u32 = u32::MAX;
/// Longest payload sent by direct I/O.
const DIRECT: usize = 448;
/// How long to wait for a silent peer after standard input has ended.
const QUIET: Duration = Duration::from_secs(2);

/// Measures round trips of tagged remote writes
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Microseconds to poll before this side goes to sleep
    #[arg(long, global = true)]
    poll: Option<u64>,
    /// Seconds to wait for a message
    #[arg(long, global = true, default_value_t = 30)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a ticket, reads the peer's from standard input, and sends back every message
    Serve,
    /// Prints a ticket and measures
    Run {
        /// The server's ticket
        #[arg(long)]
        ticket: Ticket,
        /// Number of round trips
        #[arg(long, default_value_t = 10_000)]
        count: u64,
        /// Bytes of payload
        #[arg(long, default_value_t = 16)]
        size: usize,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open()?;
        let polling =
            options.poll.map(|poll| Polling::up_to(Duration::from_micros(poll))).unwrap_or_default();
        let timeout = Duration::from_secs(options.timeout);
        match options.role {
            Role::Serve => serve(&mut End::create(&card, polling)?, timeout),
            Role::Run { ticket, count, size } => {
                run(&mut End::create(&card, polling)?, &ticket, count, size, timeout)
            }
        }
    })
}

/// One end: it receives in a buffer and sends by direct I/O or, if necessary, from a send buffer.
struct End {
    receiver: TagReceiver,
    sender: TagSender,
    buffer: SendBuffer,
}

impl End {
    fn create(card: &Card, polling: Polling) -> Outcome<Self> {
        let terminus = card.create_terminus()?;
        let packet = terminus.packet_size() as usize;
        let receiver = TagReceiver::create(card, PAYLOAD as usize + packet, 256)?;
        receiver.set_polling(polling);
        Ok(Self { receiver, buffer: terminus.create_send_buffer(packet)?, sender: TagSender::new(terminus) })
    }

    fn send(&mut self, ticket: &Ticket, payload: &[u8], tag: u32) -> Outcome<Handle> {
        if payload.len() <= DIRECT {
            return Ok(self.sender.send(ticket, payload, PAYLOAD, tag)?);
        }
        self.buffer.write(0, payload)?;
        Ok(self.sender.send(ticket, self.buffer.piece(0, payload.len())?, PAYLOAD, tag)?)
    }
}

fn serve(end: &mut End, timeout: Duration) -> Outcome {
    print(&json!({ "ticket": end.receiver.ticket()?.to_string() }))?;
    let peer = common::read_ticket()?;
    let ended = common::input_ended();
    end.receiver.recv_tag_timeout(ANNOUNCEMENT, timeout)?;
    let mut announced = [0; 16];
    end.receiver.read(0, &mut announced)?;
    let (count, size) = (number(&announced[..8]), number(&announced[8..]) as usize);
    let limit = end.buffer.len();
    if size > limit {
        return Err(format!("payload of {size} bytes is out of range (limit {limit})").into());
    }
    let mut payload = vec![0; size];
    let mut echoed = 0_u64;
    let mut last = None;
    while echoed < count {
        let limit = if ended.load(Ordering::Acquire) { QUIET } else { timeout };
        let tag = match end.receiver.recv_polling_timeout(limit) {
            Err(error) if error.is_timed_out() && limit == QUIET => break,
            tag => tag?,
        };
        end.receiver.read(PAYLOAD as usize, &mut payload)?;
        last = Some(end.send(&peer, &payload, tag)?);
        echoed += 1;
    }
    // Dropping the terminus would abandon what is still in its work queue.
    last.map_or(Ok(()), |handle| handle.wait_timeout(timeout))?;
    print(&json!({ "echoed": echoed }))
}

fn run(end: &mut End, peer: &Ticket, count: u64, size: usize, timeout: Duration) -> Outcome {
    let limit = end.buffer.len();
    if size > limit {
        return Err(format!("payload of {size} bytes is out of range (limit {limit})").into());
    }
    print(&json!({ "ticket": end.receiver.ticket()?.to_string() }))?;
    let announcement = [count.to_le_bytes(), (size as u64).to_le_bytes()].concat();
    end.sender.send(peer, &announcement[..], 0, ANNOUNCEMENT)?.wait_timeout(timeout)?;
    let mut times = Histogram::<u64>::new(3)?;
    let (mut sent, mut back) = (vec![0; size], vec![0; size]);
    for round in 0..count {
        let tag = round as u32 & 0x7fff_ffff;
        common::fill_pattern(round, 0, &mut sent);
        let start = Instant::now();
        let handle = end.send(peer, &sent, tag)?;
        let Ok(answer) = end.receiver.recv_polling_timeout(timeout) else {
            handle.wait_timeout(Duration::ZERO)?;
            return Err(format!("no answer to message {round} within {timeout:?}").into());
        };
        times.record(start.elapsed().as_nanos() as u64)?;
        end.receiver.read(PAYLOAD as usize, &mut back)?;
        if answer != tag || back != sent {
            return Err(format!("answer {answer} to message {round} carries other bytes").into());
        }
    }
    print(&json!({
        "round_trips": times.len(),
        "min_ns": times.min(),
        "p50_ns": times.value_at_quantile(0.5),
        "p99_ns": times.value_at_quantile(0.99),
        "p999_ns": times.value_at_quantile(0.999),
        "max_ns": times.max(),
    }))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
