//! Raw bandwidth (section 5.2, Figure 7): the time from the receiver's request for a message until
//! its last word has arrived.
//!
//! The paper's receiver measures the time from the first word to the last. Here the copying thread
//! and the polling processor often share one host core. The receiver then sees both words at once,
//! however long the copy took.

use hamlyn::clan::Watch;
use serde_json::json;

use crate::clan::ends::End;
use crate::clan::outgoing::{By, Outgoing};
use crate::engine::lap_words::{ASKED, DATA, PAGE, Words};
use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::PATIENCE;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Bytes of each message, a multiple of 8
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(8..=4 << 20))]
    size: u64,
    /// How the messages are sent
    #[arg(long, value_enum, default_value = "dma")]
    by: By,
    /// Word whose Tripwire wakes the receiver; without this option the receiver polls. After the
    /// wake-up the receiver reads all bytes
    #[arg(long, value_enum)]
    woken_by: Option<Word>,
}

/// A word of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Word {
    /// The first word: the rest is still in flight
    First,
    /// The last word: the whole message has arrived
    Last,
}

impl Options {
    fn size(&self) -> usize {
        self.size as usize & !7
    }

    /// Returns the offset of the message's last word, which shows that the whole message has
    /// arrived.
    fn last(&self) -> usize {
        self.size() - 8
    }
}

/// Returns the value of a message's last word.
fn number(round: u64) -> u32 {
    round as u32 + 1
}

/// Sends each message when the receiver asks for it.
pub(crate) fn send(options: &Options) -> Outcome {
    let end = End::open(PAGE, options.by.drivers())?;
    let outgoing = Outgoing::open(&end, options.by, options.size())?;
    let answered = options.rounds.answer(|round| {
        // Until the receiver asks for this message, the engine may still be reading the previous
        // one.
        end.wait(ASKED, round as u32)?;
        for place in [0, options.last()] {
            outgoing.put(place, &u64::from(number(round)).to_le_bytes())?;
        }
        outgoing.send(0, options.size())
    })?;
    // Wait until the last message has arrived before this process ends.
    end.wait(ASKED, number(options.rounds.total() - 1))?;
    say(&answered)
}

/// Asks for each message and measures its arrival.
pub(crate) fn watch(options: &Options) -> Outcome {
    let end = End::open(DATA + options.size(), false)?;
    let place = DATA + if options.woken_by == Some(Word::First) { 0 } else { options.last() };
    let mut tripwire = end.endpoint.tripwire(&Watch::local(&end.own, place..place + 8)?)?;
    let mut bytes = vec![0; options.size()];
    if options.woken_by.is_some() {
        end.sleep_at_once();
    }
    let mut arrived = options.rounds.measure(|round| {
        end.say(ASKED, number(round))?;
        if options.woken_by.is_some() {
            let look = || Ok(Some(end.own.load_u32(place)?).filter(|found| *found == number(round)));
            tripwire.wait_until_timeout(PATIENCE, look)?;
        }
        end.poll(DATA + options.last(), number(round))?;
        Ok(options.woken_by.map_or(Ok(()), |_| end.own.read(DATA, &mut bytes))?)
    })?;
    end.say(ASKED, number(options.rounds.total()))?;
    arrived["bytes"] = json!(options.rounds.count * options.size() as u64);
    say(&arrived)
}
