//! Items that are stored one after the other while pages are paged out and in.

use std::time::Duration;

use hamlyn::shrimp::{ReceiveBuffer, SendBuffer};
use serde_json::{Value, json};

use crate::common::Outcome;

/// Offset of the number of items stored.
const COUNT: usize = 0;
/// Items lie after the first page. Each holds its own number, so a later item in the same place is
/// a larger number.
const ITEMS: usize = 4096;
/// How long to wait for the next item.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of checks between two requests to the kernel to page out the pages.
const BETWEEN_PAGE_OUTS: u32 = 16;

/// Returns the number of places for items in a buffer.
fn places(length: usize) -> u64 {
    ((length - ITEMS) / 8) as u64
}

fn place(item: u64, length: usize) -> usize {
    ITEMS + ((item - 1) % places(length)) as usize * 8
}

pub(crate) fn stream(mapping: &SendBuffer, count: u32) -> Outcome<Value> {
    for item in 1..=count {
        mapping.store_u64(place(item.into(), mapping.len()), item.into())?;
        mapping.store_u32(COUNT, item)?;
    }
    Ok(json!({ "streamed": count }))
}

/// Checks each number that it sees, and all items at the end.
pub(crate) fn follow(buffer: &ReceiveBuffer, count: u32) -> Outcome<Value> {
    let (mut seen, mut looks) = (0, 0_u32);
    while seen < count {
        seen = buffer.wait_timeout(COUNT, seen, PATIENCE)?;
        expect(buffer, seen.into(), seen)?;
        looks += 1;
        if looks % BETWEEN_PAGE_OUTS == 0 {
            buffer.page_out()?;
        }
    }
    let last = u64::from(count);
    for item in last.saturating_sub(places(buffer.len())) + 1..=last {
        expect(buffer, item, count)?;
    }
    Ok(json!({ "followed": count }))
}

fn expect(buffer: &ReceiveBuffer, item: u64, seen: u32) -> Outcome {
    let found = buffer.load_u64(place(item, buffer.len()))?;
    // A later item may already be there, but its number differs by whole rounds.
    let rounds = found.checked_sub(item).is_some_and(|more| more % places(buffer.len()) == 0);
    if rounds { Ok(()) } else { Err(format!("item {item} is {found} when {seen} are there").into()) }
}
