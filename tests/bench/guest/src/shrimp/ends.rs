//! Two processes, each with a page that the other's first page is mapped to: complementary mappings
//! (section 4.1). A store to one process's `out` arrives in the other's `own`.

use std::io::BufRead;

use clap::ValueEnum;
use hamlyn::shrimp::{Card, Handle, Mode, ReceiveBuffer, SendBuffer};
use serde_json::json;

use crate::engine::counts::Statistics;
use crate::engine::lap_words::{PAGE, Words};
use crate::engine::result::{Outcome, exchange_words, say};
use crate::engine::wait::PATIENCE;

/// How stores reach the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The card snoops them on the machine's bus
    Snoop,
    /// By window pages
    Window,
}

/// One of the two processes.
pub(crate) struct End {
    pub(crate) card: Card,
    pub(crate) own: ReceiveBuffer,
    /// The peer's memory.
    pub(crate) peer: Handle,
    /// Mapped to the peer's first page, in single-write mode.
    pub(crate) out: SendBuffer,
}

impl End {
    /// Opens an end with `length` bytes of memory to receive in. Fails if stores do not reach the
    /// card as requested, because the result would then have the wrong label.
    pub(crate) fn open(length: usize, by: By) -> Outcome<Self> {
        let card = Card::open_default()?;
        let own = card.export(length, card.hosts()?)?;
        let peer: Handle = exchange_words(&own.handle()?.to_string())?.parse()?;
        let out = card.map(&peer, 0, PAGE, Mode::Single)?;
        let snoops = card.info()?.snoops;
        if snoops != (by == By::Snoop) {
            return Err(
                format!("stores should come by {by:?}, and the card's view of them is {snoops}").into()
            );
        }
        Ok(Self { card, own, peer, out })
    }
}

impl Words for End {
    fn say(&self, word: usize, value: u32) -> Outcome {
        Ok(self.out.store_u32(word, value)?)
    }

    fn wait(&self, word: usize, seen: u32) -> Outcome<u32> {
        Ok(self.own.wait_timeout(word, seen, PATIENCE)?)
    }

    fn read(&self, at: usize, to: &mut [u8]) -> Outcome {
        Ok(self.own.read(at, to)?)
    }

    fn statistics(&self) -> Outcome<Statistics> {
        Ok(self.card.statistics()?)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct HoldOptions {
    /// How stores reach the card
    #[arg(long, value_enum, default_value = "snoop")]
    by: By,
}

/// Holds a page mapped out and one mapped in, and does nothing.
pub(crate) fn hold(options: &HoldOptions) -> Outcome {
    let _end = End::open(PAGE, options.by)?;
    say(&json!({ "holds": true }))?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    say(&json!({ "held": true }))
}
