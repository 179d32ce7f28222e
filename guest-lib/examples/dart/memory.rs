//! Virtual memory (section 3): an endpoint's memory is not pinned. A message for an absent page
//! waits while the driver is interrupted and faults the page in. Then the message is executed. The
//! next message for that page causes no interrupt.

use std::time::Instant;

use hamlyn::dart::{Card, Operation};
use serde_json::{Map, Value, json};

use crate::Options;
use crate::common::{Outcome, print};
use crate::meet::{Guest, Home, Plan, look};
use crate::pages::pages;

const PAGE: usize = 4096;
/// Offset of a message in its page.
const WITHIN: usize = 1024;

pub(crate) fn keep(card: &Card, options: &Options, swap: bool) -> Outcome {
    let length = options.count as usize * PAGE;
    let mut home = Home::open(card, options, Plan { memory: length, ..Plan::default() })?;
    let untouched = round(&mut home, options, "never touched")?;
    if !swap {
        return home.end(&json!({}), untouched);
    }
    print(&untouched.into())?;
    // Asks the kernel until it has swapped out all pages.
    look(home.patience, "that all pages are swapped out", || {
        home.endpoint.page_out()?;
        Ok((pages(home.endpoint.address(), length as u64)?["present"] == 0).then_some(()))
    })?;
    let swapped = round(&mut home, options, "swapped out")?;
    home.end(&json!({}), swapped)
}

/// Lets all others write to each page. This host does not touch the pages before.
fn round(home: &mut Home, options: &Options, were: &str) -> Outcome<Map<String, Value>> {
    let length = options.count * PAGE as u64;
    let present = pages(home.endpoint.address(), length)?["present"].clone();
    home.begin()?;
    let mut counted = home.wait()?;
    for page in 0..options.count as usize {
        let found = home.endpoint.load_u32(page * PAGE + WITHIN)?;
        if found as usize != page + 1 {
            return Err(format!("page {page} has {found}").into());
        }
    }
    counted.extend([
        ("pages".to_owned(), json!(options.count)),
        ("were".to_owned(), json!(were)),
        ("present".to_owned(), present),
        ("verified".to_owned(), json!(true)),
    ]);
    Ok(counted)
}

pub(crate) fn join(card: &Card, options: &Options, swap: bool) -> Outcome {
    let mut guest = Guest::reach(card, options, options.count as usize * 4, false)?;
    let begun = Instant::now();
    write(&guest, options.count)?;
    if swap {
        guest.done()?;
        guest.next()?;
        write(&guest, options.count)?;
    }
    let milliseconds = begun.elapsed().as_millis() as u64;
    guest.end(&json!({ "written": options.count, "milliseconds": milliseconds }))
}

/// Writes its number to each page.
fn write(guest: &Guest, count: u64) -> Outcome {
    for page in 0..count {
        guest.endpoint.write(page as usize * 4, &(page as u32 + 1).to_le_bytes())?;
    }
    for page in 0..count {
        let operation = Operation::write(page * PAGE as u64 + WITHIN as u64).mask(0xfe);
        guest.connection.send_timeout(&operation, page * 4..page * 4 + 4, guest.patience)?;
    }
    Ok(guest.connection.wait_until_left_timeout(guest.patience)?)
}
