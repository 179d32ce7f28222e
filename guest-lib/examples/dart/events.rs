//! Filtering (section 1): the receiver sleeps until there is an event, then does other work, and
//! takes the remaining events later. A delayed queue interrupts it once, an immediate one for each
//! event.

use hamlyn::dart::{Card, Operation, Urgency};
use serde_json::json;

use crate::Options;
use crate::common::Outcome;
use crate::meet::{Guest, Home, Plan};

pub(crate) fn keep(card: &Card, options: &Options, urgency: Urgency) -> Outcome {
    let events = u64::from(options.others) * options.count;
    let records = u32::try_from(events.max(16).next_power_of_two())?;
    let mut home = Home::open(card, options, Plan { records, urgency, ..Plan::default() })?;
    let mut queue = home.events()?;
    home.begin()?;
    queue.recv_timeout(home.patience)?;
    let counted = home.wait()?;
    let taken = 1 + std::iter::from_fn(|| queue.try_recv()).count();
    if taken as u64 != events {
        return Err(format!("of {events} events came {taken}").into());
    }
    home.end(&json!({ "taken": taken }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let guest = Guest::meet(card, options)?;
    for number in 0..options.count {
        guest.connection.send_timeout(&Operation::registers(number).tell(), 0..0, guest.patience)?;
    }
    guest.end(&json!({ "told": options.count }))
}
