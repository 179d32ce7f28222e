//! Mutual exclusion between two hosts, using only shared memory (complementary mappings, section
//! 4.1).
//!
//! Algorithms for one memory, such as Dekker's and Peterson's, do not work here: a store is still
//! in flight while the next load is made. This is Lamport's algorithm (*Time, clocks, and the
//! ordering of events in a distributed system*, 1978). It requires only that a host's messages
//! arrive in order, which PRAM consistency guarantees. A side that wants to enter stores its own
//! time. It may enter once the other side has seen that, and either does not want to enter or came
//! later. Each of these words has one writer.
//!
//! Inside, each side adds one to a counter, which both write. If a store overtook another, the lock
//! would appear free before the counter had arrived, and an increment would be lost.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hamlyn::shrimp::{Card, Handle, Mode, Shared};
use serde_json::json;

use crate::common::{Outcome, print};
use crate::seek::seek;

/// Offsets of a side's words: `WISH` is the time of its wish to enter, or 0. `SEEN` is the time of
/// the other's wish that it has seen last. `DONE` is set when the side is done.
const WISH: usize = 0;
const SEEN: usize = 4;
const DONE: usize = 8;
/// Offsets of the two sides' words. Each side has its own page, so that blocked-write never merges
/// stores of both sides.
const SIDES: [usize; 2] = [0, 4096];
/// Offset of the counter, which the side inside writes, and of its complement, which reveals half
/// an increment.
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
    /// Number of times that each side enters
    #[arg(long, default_value_t = 500, global = true)]
    count: u32,
    /// Lets consecutive stores travel together (blocked-write)
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
    /// 0 or 1. Of two wishes with the same time, that of side 0 goes first.
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
            let request = listener.request_timeout(patience)?;
            let memory = card.share(own, &Handle::from_bytes(request.private())?, mode)?;
            let connection = request.accept(&handle.to_bytes())?;
            side(memory, 0).count(options.count)?;
            connection.wait_end_timeout(patience)?;
        }
        What::Second => {
            let own_handle = handle.to_bytes();
            let found = seek(card, &options.name, &own_handle, patience)?;
            let memory = card.share(own, &Handle::from_bytes(found.private())?, mode)?;
            side(memory, 1).count(options.count)?;
            found.close(b"")?;
        }
    }
    Ok(())
}

impl Side {
    /// Enters `times` times, and adds one each time. Then answers the other side until it is done,
    /// too.
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
        // The order matters: a wish that the other made before it saw this one has already arrived.
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

    /// Acknowledges the other side's wishes until `is_so` returns true.
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
