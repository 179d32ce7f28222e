//! A long message by DMA, gathered from several send buffers (section 2.3); the receiver verifies
//! every byte. The send buffers are parts of one registered area, or with `--own` vectors of the
//! program's own.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::{Message, MessageArea, Piece, Slot, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Sends a long message, or receives and verifies it
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Seconds to wait for the message
    #[arg(long, global = true, default_value_t = 60)]
    timeout: u64,
    /// Uses memory of the program's own
    #[arg(long, global = true)]
    own: bool,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a ticket, waits for the message and verifies it
    Receive {
        /// Number of bytes to receive
        #[arg(long, default_value_t = 1 << 20)]
        bytes: usize,
        /// Seed of the sender's pattern
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Sends a message
    Send {
        /// The receiver's ticket
        #[arg(long)]
        ticket: Ticket,
        /// Number of bytes
        #[arg(long, default_value_t = 1 << 20)]
        bytes: usize,
        /// Seed of the pattern
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of send buffers to gather from, 1 to 8
        #[arg(long, default_value_t = 4)]
        buffers: usize,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        match &options.role {
            Role::Receive { bytes, seed } => receive(&options, *bytes, *seed),
            Role::Send { ticket, bytes, seed, buffers } => send(&options, ticket, *bytes, *seed, *buffers),
        }
    })
}

/// Returns the number of bytes and the seed as the message's metadata.
fn metadata(bytes: usize, seed: u64) -> Vec<u8> {
    [(bytes as u64).to_le_bytes(), seed.to_le_bytes()].concat()
}

fn receive(options: &Options, bytes: usize, seed: u64) -> Outcome {
    let card = options.card.open()?;
    let area = if options.own { card.lend(vec![0_u8; bytes])? } else { card.create_area(bytes)? };
    let queue = card.create_queue(2)?;
    let slot = card.slot(&area).metadata_entries(1).queue(&queue).create()?;
    print(&json!({ "ticket": slot.ticket(0)?.to_string() }))?;
    let arrived = queue.recv_timeout(Duration::from_secs(options.timeout))?;
    let entry = slot.entry_of(&arrived).ok_or("the notification is not about this slot")?;
    let described = slot.metadata(entry)?.user()[..16] == metadata(bytes, seed);
    let data = if options.own { taken_back(slot, area)? } else { copied_out(&slot, bytes)? };
    let difference = common::find_difference(seed, 0, &data);
    let verified = described && difference.is_none();
    print(&json!({ "received": bytes, "verified": verified }))?;
    match difference {
        Some(offset) => Err(format!("byte {offset} is wrong").into()),
        None if !described => Err("the metadata is wrong".into()),
        None => Ok(()),
    }
}

/// Returns the lent vector. The slot is closed first, so that no write can follow.
fn taken_back(slot: Slot, area: MessageArea) -> Outcome<Vec<u8>> {
    drop(slot);
    Ok(area.take_back::<Vec<u8>>()?)
}

fn copied_out(slot: &Slot, bytes: usize) -> Outcome<Vec<u8>> {
    let mut data = vec![0; bytes];
    slot.read(0, &mut data)?;
    Ok(data)
}

fn send(options: &Options, ticket: &Ticket, bytes: usize, seed: u64, buffers: usize) -> Outcome {
    if !(1..=8).contains(&buffers) || bytes < buffers {
        return Err(format!("{buffers} send buffers for {bytes} bytes (limits 1 to 8, a byte each)").into());
    }
    let card = options.card.open()?;
    let terminus = card.create_terminus()?;
    let share = bytes.div_ceil(buffers);
    let area = card.create_area(bytes)?;
    card.register(&area)?;
    let mut filled = Vec::new();
    for offset in (0..bytes).step_by(share) {
        let mut data = vec![0; share.min(bytes - offset)];
        common::fill_pattern(seed, offset, &mut data);
        filled.push(if options.own {
            terminus.lend(data)?
        } else {
            area.write(offset, &data)?;
            terminus.create_send_buffer_in(&area, offset..offset + data.len())?
        });
    }
    let pieces: Vec<Piece<'_>> =
        filled.iter().map(|buffer| buffer.piece(0, buffer.len())).collect::<hamlyn::Result<_>>()?;
    let metadata = metadata(bytes, seed);
    let start = Instant::now();
    let handle = terminus.send_gather(&Message::to(ticket).metadata(&metadata), &pieces)?;
    handle.wait_timeout(common::seconds(options.timeout))?;
    let time = start.elapsed();
    let rate = bytes as f64 / 1e6 / time.as_secs_f64();
    print(&json!({ "sent": bytes, "ns": time.as_nanos() as u64, "mb_per_s": (rate * 10.0).round() / 10.0 }))
}
