//! Description of a CLAN card.

use hamlyn_abi::clan::endpoint::CLAN_MAX_TRIPWIRES;
use hamlyn_abi::clan::statistics::ClanStatistic;
use hamlyn_abi::clan::uapi::{CLAN_MAX_APERTURE, CLAN_MAX_WINDOW, ClanQuery};

use super::facts::{Facts, driven};
use crate::Outcome;

pub(crate) fn facts(name: &str) -> Outcome<Facts> {
    let (query, counters) = driven::<hamlyn::clan::Clan>(name, &ClanStatistic::NAMES)?;
    let own = query.of_card::<ClanQuery>().unwrap_or_default();
    let mut facts = Facts::of(&query, counters);
    facts.fields = vec![
        ("tripwires", own.tripwires.into(), ""),
        ("burst", own.burst.into(), " bytes"),
        ("credits", own.credits.into(), " words"),
    ];
    facts.limits = vec![
        ("max_apertures", own.apertures.into(), ""),
        ("max_window_pages", own.window_pages.into(), ""),
        ("max_endpoints", own.endpoints.into(), ""),
        ("max_tripwires_of_endpoint", CLAN_MAX_TRIPWIRES.into(), ""),
        ("max_aperture", CLAN_MAX_APERTURE.into(), " bytes"),
        ("max_window", CLAN_MAX_WINDOW.into(), " bytes"),
    ];
    Ok(facts)
}
