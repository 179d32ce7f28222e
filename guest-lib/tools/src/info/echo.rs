//! Echo cards: only their description, as there is nothing to measure.

use hamlyn_abi::echo::statistics::EchoStatistic;
use hamlyn_abi::echo::uapi::EchoQuery;

use super::facts::{Facts, driven};
use crate::Outcome;

pub(crate) fn facts(name: &str) -> Outcome<Facts> {
    let (query, counters) = driven::<hamlyn::echo::Echo>(name, &EchoStatistic::NAMES)?;
    let mailboxes = query.of_card::<EchoQuery>().map(|own| own.mailboxes);
    let mut facts = Facts::of(&query, counters);
    facts.fields = vec![("mailboxes", mailboxes.into(), "")];
    Ok(facts)
}
