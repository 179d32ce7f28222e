//! Items that are stored one after the other, while pages come and go.

use std::time::Duration;

use hamlyn::shrimp::{ReceiveBuffer, SendBuffer};
use serde_json::{Value, json};

use crate::common::Outcome;

/// How many items were stored: the first word.
const COUNT: usize = 0;
/// Items lie behind the first page, and each is the number that it has: a later one of the same
/// place is a larger number.
const ITEMS: usize = 4096;
/// How long the next item is waited for.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
/// Looks after which the kernel is told again that it may have the pages.
const BETWEEN_PAGE_OUTS: u32 = 16;

/// How many places for items a buffer has.
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

/// Looks at each number that it sees, and at all items in the end.
pub(crate) fn follow(buffer: &ReceiveBuffer, count: u32) -> Outcome<Value> {
    let (mut seen, mut looks) = (0, 0_u32);
    while seen < count {
        seen = buffer.wait(COUNT, seen, PATIENCE)?;
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
    // One that came later may be there already, but at most by whole rounds.
    let rounds = found.checked_sub(item).is_some_and(|more| more % places(buffer.len()) == 0);
    if rounds { Ok(()) } else { Err(format!("item {item} is {found} when {seen} are there").into()) }
}
