//! Group receive (section 2.5): several senders and their delegates fill one buffer, and the
//! receiver is notified once.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::{Card, Mode, Share};
use hamlyn_examples as common;
use serde_json::json;

/// One notification for a message set from several senders
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Seconds to wait
    #[arg(long, global = true, default_value_t = 30)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints the senders' shares, waits for the single notification, and verifies every byte
    Receive {
        /// Bytes to receive from all senders together
        #[arg(long, default_value_t = 1 << 20)]
        bytes: usize,
        /// Seed of the senders' pattern
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of shares
        #[arg(long, default_value_t = 4)]
        parts: usize,
        /// Uses a slot in paranoid one-shot mode
        #[arg(long)]
        one_shot: bool,
    },
    /// Sends a share, in one or several messages, the last part first
    Send {
        /// The share
        #[arg(long)]
        share: String,
        /// Seed of the pattern
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Number of messages
        #[arg(long, default_value_t = 1)]
        messages: usize,
    },
    /// Divides a share for delegates and prints the parts; needs no card
    Split {
        /// The share; it is used up
        #[arg(long)]
        share: String,
        /// Number of parts
        #[arg(long, default_value_t = 2)]
        parts: usize,
    },
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let open = || options.card.open();
        match options.role {
            Role::Receive { bytes, seed, parts, one_shot } => {
                receive(&open()?, bytes, seed, parts, one_shot, options.timeout)
            }
            Role::Send { share, seed, messages } => {
                send(&open()?, share.parse()?, seed, messages, options.timeout)
            }
            Role::Split { share, parts } => print_shares(&share.parse::<Share>()?.split(parts)?),
        }
    })
}

fn print_shares(shares: &[Share]) -> Outcome {
    print(&json!({ "shares": shares.iter().map(Share::to_string).collect::<Vec<_>>() }))
}

fn receive(card: &Card, bytes: usize, seed: u64, parts: usize, one_shot: bool, timeout: u64) -> Outcome {
    let area = card.create_area(bytes)?;
    let queue = card.create_queue(64)?;
    let mode = if one_shot { Mode::ParanoidOneShot } else { Mode::Normal };
    let slot = card.slot(&area).metadata_entries(1).mode(mode).queue(&queue).create()?;
    print_shares(&Share::whole(slot.ticket(0)?)?.split(parts)?)?;
    let arrived = queue.recv_timeout(Duration::from_secs(timeout))?;
    let entry = slot.entry_of(&arrived).ok_or("the notification is not about this slot")?;
    let mut data = vec![0; bytes];
    slot.read(0, &mut data)?;
    let difference = common::find_difference(seed, 0, &data);
    let mut notifications = 1;
    while queue.try_recv()?.is_some() {
        notifications += 1;
    }
    let verified = difference.is_none() && notifications == 1 && slot.metadata(entry)?.accumulator() == 0;
    print(&json!({ "received": bytes, "notifications": notifications, "verified": verified }))?;
    match difference {
        Some(offset) => Err(format!("byte {offset} is wrong: the notification came early").into()),
        None if !verified => Err("there was more than one notification".into()),
        None => Ok(()),
    }
}

fn send(card: &Card, share: Share, seed: u64, messages: usize, timeout: u64) -> Outcome {
    let (start, length) = (share.ticket().base, share.len() as usize);
    let mut data = vec![0; length];
    common::fill_pattern(seed, start as usize, &mut data);
    let terminus = card.create_terminus()?;
    let mut buffer = terminus.create_send_buffer(length.max(1))?;
    buffer.write(0, &data)?;
    let mut last = None;
    for piece in share.split(messages)?.iter().rev() {
        let from = (piece.ticket().base - start) as usize;
        last = Some(terminus.send(&piece.message(), buffer.piece(from, piece.len() as usize)?)?);
    }
    last.map_or(Ok(()), |handle| handle.wait_timeout(common::seconds(timeout)))?;
    print(&json!({ "sent": length, "messages": messages }))
}
