//! Two processes, each with a page that the other's first page is mapped to: complementary mappings (section 4.1). What the one
//! stores in `out` arrives in the other's `own`.

use std::io::BufRead;

use clap::ValueEnum;
use hamlyn::shrimp::{Card, Handle, Mode, ReceiveBuffer, SendBuffer};
use serde_json::{Map, Value, json};

use crate::engine::result::{Outcome, exchange_words, say};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// How stores come to the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The card sees them on the machine's bus
    Snoop,
    /// By window pages
    Window,
}

/// One of the two.
pub(crate) struct End {
    pub(crate) card: Card,
    pub(crate) own: ReceiveBuffer,
    /// The other's memory.
    pub(crate) peer: Handle,
    /// To the other's first page, store by store.
    pub(crate) out: SendBuffer,
}

impl End {
    /// Opens one with so much memory to receive in. Fails if stores do not come to the card as they should: else something else would be
    /// measured than what the result is called.
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

    /// What the card counts while something is done.
    pub(crate) fn counted<T>(&self, act: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Counts)> {
        let before = self.card.statistics()?;
        let done = act()?;
        let after = self.card.statistics()?.into_iter().zip(before);
        let differences = after.map(|((name, after), (_, before))| (name, after - before));
        Ok((done, Counts(differences.collect())))
    }
}

/// What a card has counted.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Counts(Vec<(&'static str, u64)>);

impl Counts {
    /// Adds what was counted another time.
    pub(crate) fn add(&mut self, more: Counts) {
        if self.0.is_empty() {
            *self = more;
            return;
        }
        self.0.iter_mut().zip(more.0).for_each(|(sum, more)| sum.1 += more.1);
    }

    /// As an object.
    pub(crate) fn json(self) -> Value {
        Value::Object(
            self.0.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect::<Map<_, _>>(),
        )
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct HoldOptions {
    /// How stores come to the card
    #[arg(long, value_enum, default_value = "snoop")]
    by: By,
}

/// Has a page mapped out, and mapped in, and does nothing.
pub(crate) fn hold(options: &HoldOptions) -> Outcome {
    let _end = End::open(PAGE, options.by)?;
    say(&json!({ "holds": true }))?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    say(&json!({ "held": true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_by_their_names() {
        let mut sum = Counts::default();
        sum.add(Counts(vec![("stores", 2), ("packets", 1)]));
        sum.add(Counts(vec![("stores", 3), ("packets", 0)]));
        assert_eq!(sum.json(), json!({ "stores": 5, "packets": 1 }));
    }
}
