//! A notification queue that is too small for its reader (section 2.6): exactly the lost
//! notifications are counted.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use common::{Outcome, print};
use hamlyn::{Arrival, Card, Message, OverrunError, Polling, Ticket};
use hamlyn_examples as common;
use serde_json::json;

/// Time that a slow reader needs for a message.
const SLOW: Duration = Duration::from_millis(1);

/// Overruns a notification queue
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    card: common::CardOption,
    /// Number of messages
    #[arg(long, global = true, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    count: u32,
    /// Seconds to wait for a message
    #[arg(long, global = true, default_value_t = 30)]
    timeout: u64,
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Prints a ticket, waits for a line on standard input, and then reads the remaining messages
    Receive {
        /// Entries of the queue
        #[arg(long, default_value_t = 8)]
        entries: u32,
        /// Reads from the start instead of waiting for a line: slowly, and asleep while the queue
        /// is empty
        #[arg(long)]
        slow: bool,
    },
    /// Sends numbered messages as fast as it can
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
        let timeout = Duration::from_secs(options.timeout);
        match options.role {
            Role::Receive { entries, slow } => receive(&card, entries, slow, options.count, timeout),
            Role::Send { ticket } => send(&card, &ticket, options.count, timeout),
        }
    })
}

fn receive(card: &Card, entries: u32, slow: bool, count: u32, timeout: Duration) -> Outcome {
    let area = card.create_area(8)?;
    let queue = card.create_queue(entries)?;
    queue.set_polling(Polling::NEVER);
    let slot = card.slot(&area).queue(&queue).create()?;
    print(&json!({ "ticket": slot.fast_ticket()?.to_string() }))?;
    if !slow {
        common::read_line()?;
    }
    let mut seen = vec![false; count as usize];
    let (mut received, mut lost, mut in_order) = (0_u64, 0_u64, true);
    while received + lost < u64::from(count) {
        match queue.recv_timeout(timeout) {
            Ok(arrived) => {
                let Arrival::Fast(number) = arrived.arrival else {
                    return Err("a message with metadata".into());
                };
                match seen.get_mut(number as usize) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err(format!("message {number} was read twice, or never sent").into()),
                }
                // The messages read and lost add up to the number of the next, unless the fabric
                // reorders.
                in_order &= u64::from(number) == received + lost;
                received += 1;
                if slow {
                    std::thread::sleep(SLOW);
                }
            }
            Err(error) => match error.of::<OverrunError>() {
                Some(overrun) => lost += overrun.lost,
                None => return Err(error.into()),
            },
        }
    }
    let (overruns, counted) = queue.overruns();
    let exact = counted == lost && received + lost == u64::from(count) && queue.try_recv()?.is_none();
    let result = json!({
        "received": received,
        "lost": lost,
        "overruns": overruns,
        "exact": exact,
        "in_order": in_order,
    });
    print(&result)?;
    if exact { Ok(()) } else { Err("what was lost was not counted exactly".into()) }
}

fn send(card: &Card, ticket: &Ticket, count: u32, timeout: Duration) -> Outcome {
    let terminus = card.create_terminus()?;
    let mut last = None;
    for number in 0..count {
        last = Some(terminus.send(&Message::to(ticket).word(number), &[])?);
    }
    last.map_or(Ok(()), |handle| handle.wait_timeout(timeout))?;
    print(&json!({ "sent": count }))
}
