//! A producer and a consumer on different hosts, by memory that they share (complementary mappings,
//! section 4.1).
//!
//! The producer stores an item and then how many there are; the consumer takes them and then stores
//! how many it has taken. There is no lock and no call: that the producer's stores arrive in their
//! order is all that it needs, and each item shows whether they did. Each word has one writer, as
//! PRAM consistency asks for.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hamlyn::shrimp::{Card, Handle, Mode, Shared};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::seek::seek;

/// How many items were produced: the producer's.
const PRODUCED: usize = 0;
/// How many were taken: the consumer's. In a page of its own, so that blocked-write merges nothing
/// of the two.
const TAKEN: usize = 4096;
/// Items, of so many words of 8 bytes each: they cross pages.
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
    /// How many items
    #[arg(long, default_value_t = 2000, global = true)]
    count: u32,
    /// Lets stores that follow each other travel together (blocked-write)
    #[arg(long, global = true)]
    blocked: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Takes items, and looks whether each is whole
    Consume,
    /// Makes items
    Produce,
}

impl Options {
    fn mode(&self) -> Mode {
        if self.blocked { Mode::Blocked } else { Mode::Single }
    }

    fn patience(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.timeout))
    }
}

pub(crate) fn run(card: &Card, options: &Options) -> Outcome {
    match options.what {
        What::Consume => consume(card, options),
        What::Produce => produce(card, options),
    }
}

/// The words of an item: each one's own, so that nothing old passes for it.
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
    let request = listener.request(options.patience())?;
    let other = Handle::from_bytes(request.private())?;
    let handle = own.handle()?;
    let memory = card.share(own, &other, options.mode())?;
    let connection = request.accept(&handle.to_bytes())?;
    let mut taken = 0;
    while taken < options.count {
        let produced = memory.wait(PRODUCED, taken, options.patience())?;
        while taken < produced {
            take(&memory, taken)?;
            taken += 1;
        }
        memory.store_u32(TAKEN, taken)?;
    }
    print(&json!({ "taken": taken, "in_order": true }))?;
    // The last store has arrived when the producer has gone.
    connection.wait_end(options.patience())?;
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
            taken = memory.wait(TAKEN, taken, options.patience())?;
        }
        for index in 0..WORDS {
            memory.store_u64(place(item, index), word(item, index))?;
        }
        memory.store_u32(PRODUCED, item + 1)?;
    }
    while taken < options.count {
        taken = memory.wait(TAKEN, taken, options.patience())?;
    }
    let each = begun.elapsed().as_nanos() as u64 / u64::from(options.count.max(1));
    print(&json!({ "produced": options.count, "ns_for_each": each }))?;
    found.close(b"")?;
    Ok(())
}
