//! A log: several hosts append entries to one host's memory, at the address in one register (store
//! indirect with postincrement). When the log is full, an entry is refused and its sender is
//! notified.

use hamlyn::dart::Card;
use hamlyn::dart::programs::{Appender, Log};
use serde_json::json;

use crate::Options;
use crate::common::Outcome;
use crate::meet::{Guest, Home, MEMORY, Plan, look};

const LOG: Log = Log { tail: 4, step: 5, end: 6 };
/// Offset where the log begins, and bytes of an entry.
const START: u64 = 1024;
const ENTRY: u32 = 8;
/// Number of entries in flight at once: each has its own place.
const PLACES: u64 = 32;

pub(crate) fn keep(card: &Card, options: &Options) -> Outcome {
    let entries = u64::from(options.others) * options.count;
    let limit = (MEMORY as u64 - START) / u64::from(ENTRY);
    if entries > limit {
        return Err(format!("{entries} entries do not fit (limit {limit})").into());
    }
    let mut home = Home::open(card, options, Plan::default())?;
    LOG.set(&home.others[0], START, ENTRY, entries)?;
    home.begin()?;
    let counted = home.wait()?;
    let written = LOG.written(&home.others[0], START)?;
    // Each host has numbered its own entries, from 0 in steps of 16.
    let mut next = [0_u64; 16];
    for at in (START..START + written).step_by(ENTRY as usize) {
        let mut bytes = [0; ENTRY as usize];
        home.endpoint.read(at as usize, &mut bytes)?;
        let entry = u64::from_le_bytes(bytes);
        let (own, number) = ((entry % 16) as usize, entry / 16);
        if next[own] != number {
            return Err(format!("entry {number} of {own} is where {} should be", next[own]).into());
        }
        next[own] += 1;
    }
    home.end(&json!({ "entries": next.iter().sum::<u64>(), "in_order": true }), counted)
}

pub(crate) fn join(card: &Card, options: &Options) -> Outcome {
    let guest = Guest::meet(card, options)?;
    let appender = Appender::new(guest.connection.clone(), LOG, ENTRY);
    for number in 0..options.count {
        let at = number % PLACES * u64::from(ENTRY);
        if number % PLACES == 0 {
            guest.connection.wait_until_left_timeout(guest.patience)?;
        }
        guest.endpoint.write(at as usize, &(number * 16 + guest.own).to_le_bytes())?;
        appender.append(at)?;
    }
    if guest.others > 1 {
        return guest.end(&json!({ "appended": options.count }));
    }
    // No other host appends here, so the log is full now.
    appender.append(0)?;
    let (trap, _) = look(guest.patience, "a refusal", || Ok(guest.connection.status().trap))?;
    guest.end(&json!({ "appended": options.count, "refused": format!("{trap:?}") }))
}
