//! The cost to the receiving card of a store that passes armed Tripwires, and of one that fires.
//! Runs the card alone, on a host in memory.
//!
//! The paper's card compares each address with those of all Tripwires at once, "without hindrance
//! to the passing stream" (section 2.5).

use std::time::Instant;

use anyhow::{Context, bail, ensure};
use hamlyn_abi::clan::aperture::CLAN_APERTURE_WRITE;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::CLAN_MIN_REQUESTS;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_abi::family::area::UlnArea;
use hamlyn_card::card::{Card, Progress};
use hamlyn_card::ports::{Packet, VolatileSlice};
use hamlyn_card_clan::{ClanCard, Options};
use hamlyn_test_host::{Commands, Host, list_pages};

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{Goal, Need, beside, ratio, spread, text};
use crate::engine::report::Table;
use crate::engine::stats::median;

pub(crate) const WATCHED: Experiment = Experiment {
    name: "watched",
    has_goal: true,
    also: |run, _, _| {
        let (title, effort) = ("CLAN: what passes armed Tripwires (goal 14)", run.request.effort);
        let measured = run.progress.part(title, || measure(effort))?;
        run.goals.extend(goals(&measured));
        run.others.push(table(&measured));
        Ok(())
    },
    ..Experiment::NEW
};

/// Numbers of armed Tripwires.
const ARMED: [u32; 5] = [0, FEW, 256, 4096, 65536];
/// The smallest number other than zero.
const FEW: u32 = 16;
pub(crate) const PAGE: u64 = 4096;
const WORD: u64 = 8;
/// Bytes of the aperture: each Tripwire watches a different word in the lower half. The upper half
/// is not watched.
const APERTURE: u64 = 2 * 65536 * WORD;
pub(crate) const OWNER: u32 = 1;
pub(crate) const KEY: u64 = 7;

/// A card with `armed` Tripwires, and packets of a word each.
struct Passing {
    host: Host<ClanCard>,
    /// A packet to an unwatched word, and one to a word that fires if any Tripwire is armed.
    quiet: Vec<u8>,
    firing: Vec<u8>,
}

/// Nanoseconds per packet, round by round: to an unwatched word, and to a watched one.
struct Measured {
    armed: u32,
    quiet: Vec<f64>,
    firing: Vec<f64>,
}

pub(crate) fn options() -> Options {
    Options {
        apertures: 16,
        window_pages: 512,
        endpoints: 2048,
        tripwires: 65536,
        event_queues: 8,
        burst: 4096,
        credits: 1 << 20,
        join: 0,
        read_timeout_ms: 1000,
        handshake_ms: 0,
    }
}

/// Allocates an area of consecutive pages. All endpoints share one, because nothing reads it.
pub(crate) fn area(host: &Host<ClanCard>, length: u64) -> UlnArea {
    area_at(host, host.pages(length.div_ceil(PAGE)), length)
}

pub(crate) fn area_at(host: &Host<ClanCard>, start: u64, length: u64) -> UlnArea {
    list_pages(length, 0, || host.pages(1), |index| start + index * PAGE, |at, bytes| host.put(at, bytes))
}

/// Returns a store's packet, as a sender's card makes it.
fn packet(offset: u64) -> anyhow::Result<Vec<u8>> {
    let mut sender = Host::new(0, ClanCard::new(options())).context("no memory")?;
    open_endpoint(&mut sender, 0, 0)?;
    let body = ClanOpenWindow { key: KEY, length: APERTURE, host: 1, aperture: 3, ..Default::default() };
    done(sender.run(CLAN_COMMAND_OPEN_WINDOW, 0, &body))?;
    // Drop the card's announcement of its groups.
    while sender.transmit() == Progress::Worked {}
    sender.wire.forget();
    let window = u64::from(options().endpoints) * PAGE;
    sender.with_card(|card, ports, _| card.register_write(ports, 2, window + offset, 8, 1));
    sender.transmit();
    Ok(sender.wire.sent.pop().context("no packet was sent")?.1)
}

pub(crate) fn done(result: Result<(), hamlyn_test_host::Refusal>) -> anyhow::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(refusal) => bail!("the card has refused a command: {refusal:?}"),
    }
}

fn open_endpoint(host: &mut Host<ClanCard>, index: u32, tripwires: u32) -> anyhow::Result<()> {
    let memory = area(host, u64::from(CLAN_STATE_SIZE) + u64::from(CLAN_MIN_REQUESTS) * 64);
    open_endpoint_at(host, index, tripwires, memory)
}

fn open_endpoint_at(
    host: &mut Host<ClanCard>,
    index: u32,
    tripwires: u32,
    memory: UlnArea,
) -> anyhow::Result<()> {
    let requests = CLAN_MIN_REQUESTS;
    let events = CLAN_NO_EVENTS;
    let body = ClanOpenEndpoint { memory, owner: OWNER, tripwires, requests, events, ..Default::default() };
    done(host.run(CLAN_COMMAND_OPEN_ENDPOINT, index, &body))
}

impl Passing {
    fn create(armed: u32) -> anyhow::Result<Self> {
        let mut host = Host::new(1, ClanCard::new(options())).context("no memory")?;
        let (key, owner, flags) = (KEY, OWNER, CLAN_APERTURE_WRITE);
        let body = ClanOpenAperture { area: area(&host, APERTURE), key, owner, flags, ..Default::default() };
        done(host.run(CLAN_COMMAND_OPEN_APERTURE, 3, &body))?;
        let memory = area(&host, u64::from(CLAN_STATE_SIZE) + u64::from(CLAN_MIN_REQUESTS) * 64);
        for index in 0..armed.div_ceil(CLAN_MAX_TRIPWIRES) {
            let tripwires = (armed - index * CLAN_MAX_TRIPWIRES).min(CLAN_MAX_TRIPWIRES);
            open_endpoint_at(&mut host, index, tripwires, memory)?;
            (0..tripwires).for_each(|number| arm(&mut host, index, number));
        }
        let passing = Self { host, quiet: packet(APERTURE / 2)?, firing: packet(0)? };
        let set = passing.host.counted("tripwires_set").unwrap_or_default();
        ensure!(set == u64::from(armed), "{set} of {armed} Tripwires are armed");
        Ok(passing)
    }

    /// Delivers `count` packets. Returns the nanoseconds of each packet.
    fn deliver(&mut self, fires: bool, count: u32) -> f64 {
        let bytes = if fires { &mut self.firing } else { &mut self.quiet };
        let start = Instant::now();
        for number in 0..count {
            let packet = Packet { source: 0, bytes: VolatileSlice::from(&mut bytes[..]).into() };
            self.host.with_card(|card, ports, _| card.packet_arrived(ports, &packet));
            // Let the card grant credits now and then.
            if number % 1024 == 0 {
                self.host.transmit();
                self.host.wire.forget();
            }
        }
        start.elapsed().as_nanos() as f64 / f64::from(count)
    }
}

fn arm(host: &mut Host<ClanCard>, endpoint: u32, number: u32) {
    let place = u64::from(endpoint) * PAGE + u64::from(number * CLAN_TRIPWIRE_STRIDE);
    let word = u64::from(endpoint * CLAN_MAX_TRIPWIRES + number);
    let flags = CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_COUNT;
    let mut store = |at: u32, width, value| {
        host.with_card(|card, ports, _| card.register_write(ports, 2, place + u64::from(at), width, value));
    };
    store(CLAN_TRIPWIRE_OFFSET, 8, word * WORD);
    store(CLAN_TRIPWIRE_LENGTH, 8, WORD);
    store(CLAN_TRIPWIRE_TARGET, 8, 3);
    store(CLAN_TRIPWIRE_CONTROL, 4, flags.into());
}

/// Measures all in turn, in rounds.
fn measure(effort: Effort) -> anyhow::Result<Vec<Measured>> {
    let count = effort.pick(20_000, 100_000);
    let mut cards = ARMED
        .map(|armed| Ok((Passing::create(armed)?, Measured { armed, quiet: vec![], firing: vec![] })))
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    for _ in 0..effort.rounds() {
        for (passing, measured) in &mut cards {
            measured.quiet.push(passing.deliver(false, count));
            measured.firing.push(passing.deliver(true, count));
        }
    }
    for (passing, measured) in &cards {
        let counted = |name| passing.host.counted(name).unwrap_or_default();
        let fired = if measured.armed == 0 { 0 } else { u64::from(count) * measured.firing.len() as u64 };
        ensure!(
            counted("tripwires_fired") == fired && counted("over_credit") == 0,
            "not all packets were taken"
        );
    }
    Ok(cards.into_iter().map(|(_, measured)| measured).collect())
}

/// Goal 14: the cost does not grow with the number of armed Tripwires. The cost of having any armed
/// is only in the table.
fn goals(measured: &[Measured]) -> Vec<Goal> {
    let quiet = |armed: u32| {
        let found = measured.iter().find(|one| one.armed == armed);
        found.map(|one| one.quiet.clone()).unwrap_or_default()
    };
    let [few, all] = [FEW, ARMED[ARMED.len() - 1]].map(quiet);
    let what = "CLAN: a store that passes 65,536 armed Tripwires";
    vec![Goal::beside(14, what, "ns", &all, ("16 armed", &few), Need::RatioAtMost(1.1))]
}

/// Compares each one with the card without armed Tripwires.
fn table(measured: &[Measured]) -> Table {
    let none = measured.iter().find(|one| one.armed == 0).map(|none| none.quiet.clone()).unwrap_or_default();
    let if_armed = |one: &Measured, text: String| if one.armed == 0 { String::new() } else { text };
    let note = "Nanoseconds that the receiving card takes for a packet of one word. It runs alone on a host, and its ports are memory. \
        The packet stores to a word without a Tripwire, while others are armed or none is, or to a word that a counting Tripwire \
        watches. The paper's card compares with all Tripwires at once, at no cost (2.5).";
    Table::new(
        "CLAN: a store that passes armed Tripwires",
        note,
        measured,
        &[
            ("armed", &|one| one.armed.to_string()),
            ("passes, ns", &|one| text(median(one.quiet.clone()))),
            ("beside none armed", &|one| ratio(&one.quiet, &none)),
            ("spread", &|one| spread(&one.quiet, &none)),
            ("fires, ns", &|one| if_armed(one, text(median(one.firing.clone())))),
            ("beside one that passes", &|one| if_armed(one, beside(&one.firing, &one.quiet))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::goals::Verdict;

    #[test]
    fn each_is_compared_with_no_armed_tripwires() {
        let one = |armed, quiet| Measured { armed, quiet: vec![quiet], firing: vec![300.0] };
        let measured = [one(0, 100.0), one(16, 150.0), one(65536, 160.0)];
        let rows = table(&measured).rows;
        assert_eq!(rows[0], ["0", "100", "1", "1 to 1", "", ""]);
        assert_eq!(rows[1], ["16", "150", "1.5", "1.5 to 1.5", "300", "2 (2 to 2)"]);
        assert_eq!(goals(&measured)[0].verdict(), Verdict::Met);
        assert_eq!(goals(&[one(0, 100.0), one(16, 50.0), one(65536, 60.0)])[0].verdict(), Verdict::Short);
        assert_eq!(goals(&measured[..2])[0].verdict(), Verdict::NotMeasured);
    }

    #[test]
    fn only_armed_tripwires_fire() {
        let mut passing = Passing::create(100).unwrap();
        passing.deliver(false, 10);
        assert_eq!(passing.host.counted("tripwires_fired"), Some(0));
        passing.deliver(true, 10);
        assert_eq!(passing.host.counted("tripwires_fired"), Some(10));
    }
}
