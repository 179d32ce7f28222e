//! Filtering (section 1): who takes events sleeps until there is one, then does something else, and
//! takes the others when it suits. If its queue is delayed it is interrupted once; if it is
//! immediate, by each.

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
    queue.wait(home.patience)?;
    let counted = home.wait()?;
    let taken = 1 + std::iter::from_fn(|| queue.next()).count();
    if taken as u64 != events {
        return Err(format!("of {events} events came {taken}").into());
    }
    home.end(&json!({ "taken": taken }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let guest = Guest::meet(card, options)?;
    for number in 0..options.count {
        guest.connection.send_wait(&Operation::registers(number).tell(), 0..0, guest.patience)?;
    }
    guest.end(&json!({ "told": options.count }))
}
