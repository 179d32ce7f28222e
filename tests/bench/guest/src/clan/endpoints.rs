//! The cost of getting an endpoint and its memory for a connection (section 3.1): opened each time,
//! or reused from a cache.

use hamlyn::clan::{Card, EndpointCache, Rights};

use crate::engine::lap_words::PAGE;
use crate::engine::result::{Outcome, Rounds, say};

/// The peer that the endpoints are for.
const PEER: u64 = 0;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Number of endpoints that the cache keeps for reuse
    #[arg(long, default_value_t = 0)]
    kept: usize,
}

pub(crate) fn take(options: &Options) -> Outcome {
    let card = Card::open_default()?;
    let mut cache = EndpointCache::new(&card, card.endpoint_builder(), PAGE, Rights::Write, options.kept);
    say(&options.rounds.measure(|_| {
        let kit = cache.take(PEER)?;
        cache.give(PEER, kit);
        Ok(())
    })?)
}
