//! Attempts forbidden writes: the cards must refuse each, and the owner's memory must not change.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use common::{Outcome, print};
use hamlyn::{Card, Message, RefusedError, RequestBlock, Statistic, Terminus, Ticket};
use hamlyn_abi::hamlyn::request::{HAMLYN_REQUEST_DMA, HamlynGather, HamlynRequest};
use hamlyn_examples as common;
use serde_json::json;
use zerocopy::IntoBytes;

/// Seed of the pattern in the watched memory.
const SEED: u64 = 0x77a7_c4ed;
/// Bytes of the slot; the same number of unreachable bytes follow it in the same area.
const SLOT: usize = 4096;

/// Attempts forbidden writes, or checks that nothing is written
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a slot's ticket and waits for a line on standard input. Then verifies that no byte
    /// has changed, and prints what the card has refused meanwhile
    Watch {
        /// Closes the slot before the ticket is printed
        #[arg(long)]
        close: bool,
    },
    /// Makes an attempt
    Attack {
        /// The watched slot's ticket
        #[arg(long)]
        ticket: Ticket,
        /// The kind of violation
        #[arg(long, value_enum)]
        how: How,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    /// A key that differs in one bit
    WrongKey,
    /// Data that begins inside the slot and ends past its end
    PastEnd,
    /// A slot number beyond the table
    BadSlot,
    /// A metadata entry that the slot does not have
    BadMetadataIndex,
    /// More data than the request's body holds
    BadLength,
    /// A send buffer that does not exist
    BadTag,
    /// The unchanged ticket of a slot that was closed
    ClosedSlot,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open()?;
        match options.role {
            Role::Watch { close } => watch(&card, close),
            Role::Attack { ticket, how } => attack(&card, &ticket, how),
        }
    })
}

fn watch(card: &Card, close: bool) -> Outcome {
    let area = card.create_area(2 * SLOT)?;
    let mut pattern = vec![0; 2 * SLOT];
    common::fill_pattern(SEED, 0, &mut pattern);
    area.write(0, &pattern)?;
    let queue = card.create_queue(16)?;
    let slot = card.slot(&area).range(0..SLOT).metadata_entries(1).queue(&queue).create()?;
    let ticket = slot.ticket(0)?;
    let entry = slot.metadata(0)?;
    if close {
        drop(slot);
    }
    let before = card.statistics()?;
    print(&json!({ "ticket": ticket.to_string() }))?;
    common::read_line()?;
    let refused = common::refused_since(&before, card)?;
    let mut now = vec![0; 2 * SLOT];
    area.read(0, &mut now)?;
    let changed = common::find_difference(SEED, 0, &now);
    let notified = queue.try_recv()?.is_some();
    let unchanged = changed.is_none() && !notified && entry.user() == [0; 60] && entry.accumulator() == 0;
    print(&json!({ "unchanged": unchanged, "refused": refused }))?;
    match changed {
        Some(offset) => Err(format!("byte {offset} has changed").into()),
        None if !unchanged => Err("a message was notified, or its metadata deposited".into()),
        None => Ok(()),
    }
}

fn attack(card: &Card, ticket: &Ticket, how: How) -> Outcome {
    let terminus = card.create_terminus()?;
    let (handle, expected) = match how {
        How::WrongKey => (send(&terminus, &Ticket { key: ticket.key ^ 1, ..*ticket }, 0)?, None),
        How::PastEnd => {
            let longer = Ticket { length: ticket.length.saturating_add(4096), ..*ticket };
            (send(&terminus, &longer, ticket.length.saturating_sub(8))?, None)
        }
        How::BadSlot => (send(&terminus, &Ticket { slot: u32::MAX - 1, ..*ticket }, 0)?, None),
        How::BadMetadataIndex => {
            let index = ticket.metadata_index.wrapping_add(1).min(Ticket::FAST - 1);
            (send(&terminus, &Ticket { metadata_index: index, ..*ticket }, 0)?, None)
        }
        How::ClosedSlot => (send(&terminus, ticket, 0)?, None),
        How::BadLength => {
            let request = RequestBlock::raw(&HamlynRequest { length: 449, ..head(ticket) }, &[0xff; 448])?;
            (terminus.post(&request)?, Some(Statistic::RefusedLength))
        }
        How::BadTag => {
            let tuple = HamlynGather { tag: 8, reserved: 0, offset: 0, length: 16 };
            let request =
                HamlynRequest { flags: HAMLYN_REQUEST_DMA, length: 16, gather_count: 1, ..head(ticket) };
            let request = RequestBlock::raw(&request, tuple.as_bytes())?;
            (terminus.post(&request)?, Some(Statistic::RefusedTag))
        }
    };
    let attempt = how.to_possible_value().map(|name| name.get_name().to_owned());
    match (handle.wait_timeout(Duration::from_secs(20)), expected) {
        (Ok(()), None) => print(&json!({ "attempt": attempt, "sent": true })),
        (Ok(()), Some(reason)) => Err(format!("the card sent it instead of {}", reason.name()).into()),
        (Err(error), _) => match error.of::<RefusedError>() {
            Some(refused) if expected.is_some() && refused.reason == expected => {
                let refused = refused.reason.map(Statistic::name);
                print(&json!({ "attempt": attempt, "sent": false, "refused": refused }))
            }
            _ => Err(error.into()),
        },
    }
}

fn send(terminus: &Terminus, ticket: &Ticket, offset: u32) -> hamlyn::Result<hamlyn::Handle> {
    terminus.send(&Message::to(ticket).offset(offset), &[0xff; 16])
}

/// Returns a correct request's header, for the caller to corrupt.
fn head(ticket: &Ticket) -> HamlynRequest {
    HamlynRequest {
        destination: ticket.destination,
        slot: ticket.slot,
        metadata_index: ticket.metadata_index,
        key: ticket.key,
        ..HamlynRequest::default()
    }
}
