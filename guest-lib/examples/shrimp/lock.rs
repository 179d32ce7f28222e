//! Mutual exclusion between two hosts, by memory that they share (complementary mappings, section
//! 4.1), and nothing else.
//!
//! Algorithms for one memory, as Dekker's and Peterson's, exclude nobody here: a store is on its
//! way while the next load is made. Lamport's algorithm (*Time, clocks, and the ordering of events
//! in a distributed system*, 1978) asks for no more than that what a host says comes in order,
//! which is what PRAM consistency is. Who wants to enter stores a time of his own; he may once the
//! other has seen that, and wants nothing himself or came later. Each of these words has one
//! writer.
//!
//! Inside, each adds one to a counter, which both write. If a store overtook another, the lock
//! would be seen to be free before the counter was there, and an increment would be lost.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hamlyn::shrimp::{Card, Handle, Mode, Shared};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::seek::seek;

/// The words of a side, from where its own begin: the time of its wish to enter, or 0; the time of
/// the other's that it has seen last; and whether it is done.
const WISH: usize = 0;
const SEEN: usize = 4;
const DONE: usize = 8;
/// Where they begin. Each side's are in a page of their own, so that blocked-write merges nothing
/// of the two.
const SIDES: [usize; 2] = [0, 4096];
/// What is counted: whoever is inside writes it. Behind it its complement, so that half an
/// increment is seen.
const COUNTER: usize = 8192;
const COMPLEMENT: usize = 8192 + 2048;
const LENGTH: usize = 3 * 4096;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The first side's name
    #[arg(long, default_value = "shrimp-lock", global = true)]
    name: String,
    /// Seconds to wait for anything
    #[arg(long, default_value_t = 30, global = true)]
    timeout: u64,
    /// How often each side enters
    #[arg(long, default_value_t = 500, global = true)]
    count: u32,
    /// Lets stores that follow each other travel together (blocked-write)
    #[arg(long, global = true)]
    blocked: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Waits for the second side, and counts
    First,
    /// Counts
    Second,
}

/// A side of the lock.
struct Side {
    memory: Shared,
    /// 0 or 1: of two wishes of one time that of the first goes first.
    number: usize,
    /// Later than any wish of either side that this one knows of.
    time: u32,
    patience: Duration,
}

pub(crate) fn run(card: &Card, options: &Options) -> Outcome {
    let patience = Duration::from_secs(options.timeout);
    let mode = if options.blocked { Mode::Blocked } else { Mode::Single };
    let own = card.export(LENGTH, card.hosts()?)?;
    let handle = own.handle()?;
    let side = |memory, number| Side { memory, number, time: 1, patience };
    match options.what {
        What::First => {
            let listener = card.listen(&options.name)?;
            print(&json!({ "listening": options.name }))?;
            let request = listener.request(Some(patience))?;
            let memory = card.share(own, &Handle::from_bytes(request.private())?, mode)?;
            let connection = request.accept(&handle.to_bytes())?;
            side(memory, 0).count(options.count)?;
            connection.wait_end(Some(patience))?;
        }
        What::Second => {
            let own_handle = handle.to_bytes();
            let found = seek(card, &options.name, &own_handle, Some(patience))?;
            let memory = card.share(own, &Handle::from_bytes(found.private())?, mode)?;
            side(memory, 1).count(options.count)?;
            found.close(b"")?;
        }
    }
    Ok(())
}

impl Side {
    /// Enters so often, and adds one each time; then answers the other until that is done, too.
    fn count(&mut self, times: u32) -> Outcome {
        for _ in 0..times {
            self.enter()?;
            self.add_one()?;
            self.leave()?;
        }
        self.store(DONE, 1)?;
        self.answer_until(|side| Ok(side.others(DONE)? == 1))?;
        let counted = self.memory.load_u32(COUNTER)?;
        if counted != 2 * times {
            return Err(format!("{counted} were counted, not {}: an increment is lost", 2 * times).into());
        }
        print(&json!({ "entered": times, "counted": counted }))
    }

    fn add_one(&self) -> Outcome {
        let counted = self.memory.load_u32(COUNTER)?;
        let complement = self.memory.load_u32(COMPLEMENT)?;
        if counted != 0 && complement != !counted {
            return Err(format!("{counted} and {complement:#x}: another is inside").into());
        }
        self.memory.store_u32(COUNTER, counted + 1)?;
        Ok(self.memory.store_u32(COMPLEMENT, !(counted + 1))?)
    }

    fn enter(&mut self) -> Outcome {
        let wish = self.time;
        self.store(WISH, wish)?;
        let own = (wish, self.number);
        // In this order: what the other wished before it saw ours has come before that.
        self.answer_until(|side| Ok(side.others(SEEN)? == wish && side.is_first(own)?))
    }

    fn leave(&mut self) -> Outcome {
        self.time += 1;
        self.store(WISH, 0)
    }

    fn is_first(&self, own: (u32, usize)) -> Outcome<bool> {
        let other = self.others(WISH)?;
        Ok(other == 0 || own < (other, 1 - self.number))
    }

    /// Tells the other that its wishes are seen, until something is so.
    fn answer_until(&mut self, is_so: impl Fn(&Self) -> Outcome<bool>) -> Outcome {
        let begun = Instant::now();
        let mut seen = 0;
        while !is_so(self)? {
            let wish = self.others(WISH)?;
            if wish != 0 && wish != seen {
                seen = wish;
                self.time = self.time.max(wish + 1);
                self.store(SEEN, wish)?;
            }
            if begun.elapsed() > self.patience {
                return Err("the other side does not answer".into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn store(&self, word: usize, value: u32) -> Outcome {
        Ok(self.memory.store_u32(SIDES[self.number] + word, value)?)
    }

    fn others(&self, word: usize) -> Outcome<u32> {
        Ok(self.memory.load_u32(SIDES[1 - self.number] + word)?)
    }
}
