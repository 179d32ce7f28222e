//! A producer and a consumer on different hosts, connected by shared memory (complementary
//! mappings, section 4.1).
//!
//! The producer stores an item and then the number of items. The consumer takes them and then
//! stores the number taken. There is no lock and no call: the algorithm only needs the producer's
//! stores to arrive in order, and each item shows whether they did. Each word has one writer, as
//! PRAM consistency requires.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hamlyn::shrimp::{Card, Handle, Mode, Shared};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::seek::seek;

/// Offset of the number of items produced, written by the producer.
const PRODUCED: usize = 0;
/// Offset of the number of items taken, written by the consumer. It has its own page, so that
/// blocked-write never merges stores of both sides.
const TAKEN: usize = 4096;
/// Items of `WORDS` words of 8 bytes each, which may cross pages.
const ITEMS: usize = 8192;
const WORDS: usize = 5;
const ROOM: u32 = 250;
const LENGTH: usize = ITEMS + ROOM as usize * WORDS * 8;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The consumer's name
    #[arg(long, default_value = "shrimp-queue", global = true)]
    name: String,
    /// Seconds to wait for anything
    #[arg(long, default_value_t = 30, global = true)]
    timeout: u64,
    /// Number of items
    #[arg(long, default_value_t = 2000, global = true)]
    count: u32,
    /// Lets consecutive stores travel together (blocked-write)
    #[arg(long, global = true)]
    blocked: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Takes items, and checks that each is complete
    Consume,
    /// Produces items
    Produce,
}

impl Options {
    fn mode(&self) -> Mode {
        if self.blocked { Mode::Blocked } else { Mode::Single }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

pub(crate) fn run(card: &Card, options: &Options) -> Outcome {
    match options.what {
        What::Consume => consume(card, options),
        What::Produce => produce(card, options),
    }
}

/// Returns a word of an item. Each word is unique, so that stale data cannot be mistaken for it.
fn word(item: u32, index: usize) -> u64 {
    (u64::from(item) << 8 | index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn place(item: u32, index: usize) -> usize {
    ITEMS + ((item % ROOM) as usize * WORDS + index) * 8
}

fn consume(card: &Card, options: &Options) -> Outcome {
    let own = card.export(LENGTH, card.hosts()?)?;
    let listener = card.listen(&options.name)?;
    print(&json!({ "listening": options.name }))?;
    let request = listener.request_timeout(options.patience())?;
    let other = Handle::from_bytes(request.private())?;
    let handle = own.handle()?;
    let memory = card.share(own, &other, options.mode())?;
    let connection = request.accept(&handle.to_bytes())?;
    let mut taken = 0;
    while taken < options.count {
        let produced = memory.wait_timeout(PRODUCED, taken, options.patience())?;
        while taken < produced {
            take(&memory, taken)?;
            taken += 1;
        }
        memory.store_u32(TAKEN, taken)?;
    }
    print(&json!({ "taken": taken, "in_order": true }))?;
    // The last store has arrived when the producer has gone.
    connection.wait_end_timeout(options.patience())?;
    Ok(())
}

fn take(memory: &Shared, item: u32) -> Outcome {
    for index in 0..WORDS {
        let found = memory.load_u64(place(item, index))?;
        if found != word(item, index) {
            return Err(format!("word {index} of item {item} is {found:#x}: it came behind its count").into());
        }
    }
    Ok(())
}

fn produce(card: &Card, options: &Options) -> Outcome {
    let own = card.export(LENGTH, card.hosts()?)?;
    let handle = own.handle()?;
    let found = seek(card, &options.name, &handle.to_bytes(), options.patience())?;
    let other = Handle::from_bytes(found.private())?;
    let memory = card.share(own, &other, options.mode())?;
    let begun = Instant::now();
    let mut taken = 0;
    for item in 0..options.count {
        while item - taken >= ROOM {
            taken = memory.wait_timeout(TAKEN, taken, options.patience())?;
        }
        for index in 0..WORDS {
            memory.store_u64(place(item, index), word(item, index))?;
        }
        memory.store_u32(PRODUCED, item + 1)?;
    }
    while taken < options.count {
        taken = memory.wait_timeout(TAKEN, taken, options.patience())?;
    }
    let each = begun.elapsed().as_nanos() as u64 / u64::from(options.count.max(1));
    print(&json!({ "produced": options.count, "ns_for_each": each }))?;
    found.close(b"")?;
    Ok(())
}
