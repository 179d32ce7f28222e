//! Several slots on one notification queue, with interrupts only on request (section 2.6). Measures
//! the number of interrupts per message.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use common::{Outcome, print};
use hamlyn::{Arrival, Card, Message, Polling, Statistic, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Bytes of a message, and of each slot.
const BYTES: usize = 64;

/// Counts interrupts for messages
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Number of messages to all slots together
    #[arg(long, global = true, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    messages: u32,
    /// Seconds to wait for a message
    #[arg(long, global = true, default_value_t = 30)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a ticket for each slot, receives, and prints how many interrupts the card raised
    Receive {
        /// Number of slots
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
        slots: u32,
        /// Sleeps whenever no message is there, instead of polling
        #[arg(long)]
        asleep: bool,
    },
    /// Sends to one slot after the other
    Send {
        /// The slots' tickets
        #[arg(long, value_delimiter = ',', required = true)]
        tickets: Vec<Ticket>,
        /// Which messages request an interrupt
        #[arg(long, value_enum, default_value_t = Ask::All)]
        ask: Ask,
        /// Messages in a batch
        #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
        batch: u32,
        /// Microseconds between two batches
        #[arg(long, default_value_t = 0)]
        pace_us: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ask {
    /// All
    All,
    /// None: a sleeping receiver would not be woken
    None,
    /// The last of each batch
    Last,
}

fn main() -> ExitCode {
    common::run(|| {
        let options = Options::parse();
        let card = options.card.open()?;
        let timeout = Duration::from_secs(options.timeout);
        match options.role {
            Role::Receive { slots, asleep } => receive(&card, slots, asleep, options.messages, timeout),
            Role::Send { tickets, ask, batch, pace_us } => {
                let pace = Duration::from_micros(pace_us);
                send(&card, &tickets, ask, options.messages, batch, pace, timeout)
            }
        }
    })
}

fn receive(card: &Card, slots: u32, asleep: bool, messages: u32, timeout: Duration) -> Outcome {
    let area = card.create_area(slots as usize * BYTES)?;
    // One entry per message, so the queue cannot overrun, however slow this process is.
    let queue = card.create_queue(messages.max(2))?;
    queue.set_polling(Polling::NEVER);
    let slot = |index: u32| {
        let start = index as usize * BYTES;
        let slot = card.slot(&area).range(start..start + BYTES).queue(&queue);
        slot.notification_index(index).interrupt(false).create()
    };
    let slots = (0..slots).map(slot).collect::<hamlyn::Result<Vec<_>>>()?;
    let tickets = slots.iter().map(hamlyn::Slot::fast_ticket).collect::<hamlyn::Result<Vec<_>>>()?;
    let interrupts = || {
        Ok::<_, Box<dyn std::error::Error>>((
            common::counter(card, Statistic::Interrupts)?,
            common::counter(card, Statistic::InterruptsCoalesced)?,
        ))
    };
    let before = interrupts()?;
    print(&json!({ "tickets": tickets.iter().map(Ticket::to_string).collect::<Vec<_>>() }))?;
    let mut by_slot = vec![0_u32; slots.len()];
    for _ in 0..messages {
        let arrived =
            if asleep { queue.recv_timeout(timeout)? } else { queue.recv_polling_timeout(timeout)? };
        let index = arrived.notification_index as usize;
        let slot = slots.get(index).ok_or("a notification of no slot")?;
        let Arrival::Fast(number) = arrived.arrival else { return Err("a message with metadata".into()) };
        if arrived.slot != slot.number() || number as usize % slots.len() != index {
            return Err(format!("message {number} came by slot {index}").into());
        }
        by_slot[index] += 1;
    }
    let after = interrupts()?;
    let raised = after.0 - before.0;
    print(&json!({
        "messages": messages,
        "by_slot": by_slot,
        "interrupts": raised,
        "coalesced": after.1 - before.1,
        "per_10000": raised as f64 * 10_000.0 / f64::from(messages),
    }))
}

fn send(
    card: &Card,
    tickets: &[Ticket],
    ask: Ask,
    messages: u32,
    batch: u32,
    pace: Duration,
    timeout: Duration,
) -> Outcome {
    let terminus = card.create_terminus()?;
    let (mut asked, mut last) = (0, None);
    for number in 0..messages {
        let ticket = &tickets[number as usize % tickets.len()];
        let ends_batch = (number + 1) % batch == 0 || number + 1 == messages;
        let mut message = Message::to(ticket).word(number);
        if ask == Ask::All || (ask == Ask::Last && ends_batch) {
            message = message.interrupt();
            asked += 1;
        }
        last = Some(terminus.send(&message, &[0x5a; BYTES])?);
        if ends_batch && !pace.is_zero() {
            std::thread::sleep(pace);
        }
    }
    last.map_or(Ok(()), |handle| handle.wait_timeout(timeout))?;
    print(&json!({ "sent": messages, "asked": asked }))
}
