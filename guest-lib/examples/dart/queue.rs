//! A queue of several producers. While it is full they wait, first in the cards and then in the
//! library; nothing is lost. The consumer is slow on purpose.

use std::collections::BTreeMap;
use std::time::Duration;

use hamlyn::dart::Card;
use hamlyn::dart::programs::Producer;
use serde_json::json;

use crate::Options;
use crate::common::Outcome;
use crate::meet::{Guest, Home, Plan, look};

/// Time that the consumer spends on other work first.
const PAUSE: Duration = Duration::from_millis(200);
/// Number of items in flight at once: each has its own place.
const PLACES: u64 = 32;

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let mut home = Home::open(card, options, Plan { records: 16, ..Plan::default() })?;
    let mut items = home.events()?;
    home.begin()?;
    std::thread::sleep(PAUSE);
    let mut next = BTreeMap::new();
    for _ in 0..u64::from(options.others) * options.count {
        let item = look(home.patience, "an item", || Ok(items.try_recv()))?;
        let expected = next.entry(item.connection).or_insert(0);
        if item.operand() != *expected || item.word(0) != Some(*expected * 3) {
            return Err(format!("item {} is where {expected} should be", item.operand()).into());
        }
        *expected += 1;
    }
    let counted = home.wait()?;
    let taken: u64 = next.into_values().sum();
    home.end(&json!({ "taken": taken, "in_order": true }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let guest = Guest::meet(card, options)?;
    let producer = Producer::new(guest.connection.clone());
    for number in 0..options.count {
        let at = number % PLACES * 8;
        if number % PLACES == 0 {
            guest.connection.wait_until_left_timeout(guest.patience)?;
        }
        guest.endpoint.write(at as usize, &(number * 3).to_le_bytes())?;
        producer.put_timeout(number, at, 8, guest.patience)?;
    }
    guest.end(&json!({ "produced": options.count }))
}
