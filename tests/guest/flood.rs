//! Endless traffic, for tests that kill a process in the middle of it.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::{Card, Message, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Interval between progress reports.
const PROGRESS: Duration = Duration::from_millis(500);
/// One message in this many is notified, so that the sink's queue does not overrun.
const NOTIFIED: u64 = 16;

/// Sends without end, or receives everything
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a ticket and receives until standard input ends
    Sink {
        /// Bytes of the slot
        #[arg(long, default_value_t = 65536)]
        bytes: usize,
    },
    /// Sends until it is killed: by direct I/O up to 448 bytes, else by DMA
    Send {
        /// The sink's ticket
        #[arg(long)]
        ticket: Ticket,
        /// Bytes in a message
        #[arg(long, default_value_t = 16384)]
        size: usize,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open()?;
        match options.role {
            Role::Sink { bytes } => sink(&card, bytes),
            Role::Send { ticket, size } => send(&card, &ticket, size),
        }
    })
}

fn sink(card: &Card, bytes: usize) -> Outcome {
    let area = card.create_area(bytes)?;
    let queue = card.create_queue(4096)?;
    let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
    print(&json!({ "ticket": slot.ticket(0)?.to_string() }))?;
    let ended = common::input_ended();
    let mut notified = 0_u64;
    let mut last = Instant::now();
    while !ended.load(Ordering::Acquire) {
        match queue.recv_timeout(PROGRESS) {
            Ok(_) => notified += 1,
            Err(error) if error.is_timed_out() => {}
            Err(error) => return Err(error.into()),
        }
        if last.elapsed() >= PROGRESS {
            print(&json!({ "notified": notified }))?;
            last = Instant::now();
        }
    }
    print(&json!({ "notified": notified, "ended": true }))
}

fn send(card: &Card, ticket: &Ticket, size: usize) -> Outcome {
    let terminus = card.create_terminus()?;
    let buffer = terminus.create_send_buffer(size)?;
    let piece = buffer.piece(0, size)?;
    let mut last = Instant::now();
    for sent in 1_u64.. {
        let message = Message::to(ticket);
        let message = if sent % NOTIFIED == 0 { message } else { message.silent() };
        terminus.send(&message, piece)?;
        if last.elapsed() >= PROGRESS {
            print(&json!({ "sent": sent }))?;
            last = Instant::now();
        }
    }
    Ok(())
}
