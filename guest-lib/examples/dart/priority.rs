//! Priority queueing: the receiver is notified only of an entry that is more urgent than all
//! entries it has.

use hamlyn::dart::Card;
use hamlyn::dart::programs::{Backlog, PriorityRegisters, Urgent};
use serde_json::json;

use crate::Options;
use crate::common::Outcome;
use crate::meet::{Guest, Home, MEMORY, Plan};

const REGISTERS: PriorityRegisters = PriorityRegisters { tail: 7, most: 8, step: 9 };
/// Offset of the entries, and bytes of one.
const START: u64 = 1024;
const ENTRY: u64 = 32;
/// The priorities repeat in this order: the first and the second cause events.
const PRIORITIES: [u64; 5] = [3, 5, 2, 4, 1];

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let (entries, limit) = (u64::from(options.others) * options.count, (MEMORY as u64 - START) / ENTRY);
    if entries > limit {
        return Err(format!("{entries} entries do not fit (limit {limit})").into());
    }
    let mut home = Home::open(card, options, Plan::default())?;
    let mut backlog = Backlog::new(home.others[0].clone(), REGISTERS, START)?;
    let mut events = home.events()?;
    home.begin()?;
    let counted = home.wait()?;
    let told = std::iter::from_fn(|| events.try_recv()).count();
    let taken: Vec<u64> = backlog.take(&home.endpoint)?.into_iter().map(|(priority, _)| priority).collect();
    let of_each = (0..options.count).map(|number| PRIORITIES[(number % 5) as usize]);
    let mut put: Vec<u64> = (0..options.others).flat_map(|_| of_each.clone()).collect();
    put.sort_unstable_by(|one, next| next.cmp(one));
    if taken != put {
        return Err(format!("of {put:?} came {taken:?}").into());
    }
    home.end(&json!({ "taken": entries, "most_urgent_first": true, "told": told }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let guest = Guest::meet(card, options)?;
    let urgent = Urgent::new(guest.connection.clone(), REGISTERS);
    for number in 0..options.count {
        urgent.put(&guest.endpoint, 0, PRIORITIES[(number % 5) as usize])?;
        guest.connection.wait_until_left_timeout(guest.patience)?;
    }
    guest.end(&json!({ "put": options.count }))
}
