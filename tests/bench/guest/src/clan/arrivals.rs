//! How fast a message arrives: from when its first word is there until the last is, by the receiver's clock, as the paper has it
//! (section 5.2, Figure 7).

use std::time::Instant;

use serde_json::json;

use crate::clan::ends::End;
use crate::clan::outgoing::{By, Outgoing};
use crate::engine::lap_words::{ASKED, DATA, PAGE, Words};
use crate::engine::result::{Outcome, Rounds, nanoseconds, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Bytes of each message, a multiple of 8 from 16 on
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(16..=4 << 20))]
    size: u64,
    /// What sends them
    #[arg(long, value_enum, default_value = "dma")]
    by: By,
}

impl Options {
    fn size(&self) -> usize {
        self.size as usize & !7
    }

    /// Bytes of the message's last word, which tells that all of it is there.
    fn last(&self) -> usize {
        self.size() - 8
    }
}

/// What a message's first and last words are.
fn number(round: u64) -> u32 {
    round as u32 + 1
}

/// Sends each message when it is asked for.
pub(crate) fn send(options: &Options) -> Outcome {
    let end = End::open(PAGE, options.by.drivers())?;
    let outgoing = Outgoing::open(&end, options.by, options.size())?;
    let answered = options.rounds.answer(|round| {
        let words = u64::from(number(round)).to_le_bytes();
        outgoing.put(0, &words)?;
        outgoing.put(options.last(), &words)?;
        end.wait(ASKED, round as u32)?;
        outgoing.send(0, options.size())
    })?;
    // It has arrived before this process ends.
    end.wait(ASKED, number(options.rounds.total() - 1))?;
    say(&answered)
}

/// Asks for each message and watches it arrive.
pub(crate) fn watch(options: &Options) -> Outcome {
    let end = End::open(DATA + options.size(), false)?;
    let mut arrived = options.rounds.measure_by(|round| {
        end.say(ASKED, number(round))?;
        end.poll(DATA, number(round))?;
        let first = Instant::now();
        end.poll(DATA + options.last(), number(round))?;
        Ok(nanoseconds(first.elapsed()))
    })?;
    end.say(ASKED, number(options.rounds.total()))?;
    arrived["bytes"] = json!(options.rounds.count * options.size() as u64);
    say(&arrived)
}
