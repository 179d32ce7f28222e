//! The cost of a request and its reply on the server's card, by the number of open connections.
//! Runs the card alone, on a host in memory.
//!
//! In machines, the server's round trip (`server`) includes the emulator's part, which grows with
//! the number of touched pages. This benchmark has no emulator.

use std::time::Instant;

use anyhow::{Context, ensure};
use hamlyn_abi::clan::aperture::CLAN_APERTURE_WRITE;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::{CLAN_MIN_REQUESTS, CLAN_REQUEST_SIZE};
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_abi::family::area::UlnArea;
use hamlyn_card::card::{Card, Progress};
use hamlyn_card::ports::{Packet, VolatileSlice};
use hamlyn_card_clan::{ClanCard, Options};
use hamlyn_test_host::{Commands, Host};

use crate::clan::pairs::CLAN;
use crate::clan::watched::{KEY, OWNER, PAGE, area, area_at, done, options};
use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{ratio, spread, text};
use crate::engine::report::Table;
use crate::engine::stats::median;

pub(crate) const CONNECTIONS: Experiment = Experiment {
    name: "server",
    has_goal: true,
    // The server's machines keep running.
    pairs: &[CLAN],
    also: |run, _, _| {
        let effort = run.request.effort;
        let measured = run.progress.part("CLAN: a request at the server's card", || measure(effort))?;
        run.others.push(table(&measured));
        Ok(())
    },
    ..Experiment::NEW
};

/// Number of open connections, and how many of them are used.
const POINTS: [(u32, u32); 5] = [(1, 1), (10, 10), (100, 100), (1000, 1000), (1000, 1)];
/// Bytes of a connection's aperture, and the number of apertures in a page.
const LENGTH: u32 = 256;
const PIECES: u32 = PAGE as u32 / LENGTH;
/// Offset of a request's bytes, and of the word after them that announces the request. A Tripwire
/// watches that word.
const DATA: u64 = 64;
const READY: u64 = 0;
/// Room for event sources: four for each endpoint.
const RECORDS: u32 = 4096;
/// Distance between two connections that are used in succession: coprime to their numbers, so that
/// each one gets its turn, far from the previous one.
const STRIDE: u32 = 617;

/// A server's card, with packets of a request for each connection.
struct Serving {
    host: Host<ClanCard>,
    requests: Vec<[Vec<u8>; 2]>,
    /// Where the owner of the event queue writes how many events it has taken, and that number.
    queue: u64,
    taken: u32,
}

/// Nanoseconds per request, round by round.
struct Measured {
    open: u32,
    used: u32,
    rounds: Vec<f64>,
}

fn card() -> ClanCard {
    ClanCard::new(Options { apertures: 2048, window_pages: 2048, ..options() })
}

/// Opens endpoints. All share the same memory, because nothing reads it.
fn open_endpoints(host: &mut Host<ClanCard>, count: u32, events: u32) -> anyhow::Result<()> {
    let length = CLAN_STATE_SIZE + CLAN_MIN_REQUESTS * CLAN_REQUEST_SIZE;
    let (memory, owner, requests) = (area(host, length.into()), OWNER, CLAN_MIN_REQUESTS);
    let body = ClanOpenEndpoint { memory, owner, tripwires: 1, requests, events, ..Default::default() };
    (0..count).try_for_each(|index| done(host.run(CLAN_COMMAND_OPEN_ENDPOINT, index, &body)))
}

/// Opens a window from each endpoint to the aperture with the same number at the other host.
fn open_windows(host: &mut Host<ClanCard>, count: u32, to: u32) -> anyhow::Result<()> {
    for index in 0..count {
        let body = ClanOpenWindow {
            key: KEY,
            length: LENGTH.into(),
            host: to,
            aperture: index,
            endpoint: index,
            ..Default::default()
        };
        done(host.run(CLAN_COMMAND_OPEN_WINDOW, index, &body))?;
    }
    Ok(())
}

/// Stores 4 bytes and the word after them to a window, as the library's remote procedure calls do.
fn store(host: &mut Host<ClanCard>, connection: u32) {
    let window = (u64::from(options().endpoints) + u64::from(connection)) * PAGE;
    host.with_card(|card, ports, _| {
        card.register_write(ports, 2, window + DATA, 4, 1);
        card.register_write(ports, 2, window + READY, 8, 5);
    });
    while host.transmit() == Progress::Worked {}
}

/// Returns the packets of a request on each connection.
fn requests(count: u32) -> anyhow::Result<Vec<[Vec<u8>; 2]>> {
    let mut client = Host::new(0, card()).context("no memory")?;
    open_endpoints(&mut client, count, CLAN_NO_EVENTS)?;
    open_windows(&mut client, count, 1)?;
    // Drop the card's announcement of its groups.
    while client.transmit() == Progress::Worked {}
    client.wire.forget();
    let request = |connection| {
        store(&mut client, connection);
        let sent: Vec<_> = client.wire.sent.drain(..).map(|(_, packet)| packet).collect();
        sent.try_into().ok().context("a request is two packets")
    };
    (0..count).map(request).collect()
}

impl Serving {
    fn create(count: u32) -> anyhow::Result<Self> {
        let mut host = Host::new(1, card()).context("no memory")?;
        let length = CLAN_EVENTS_HEAD + RECORDS * CLAN_EVENT_SIZE;
        let queue = host.pages(u64::from(length).div_ceil(PAGE));
        let memory = area_at(&host, queue, u64::from(length));
        let body = ClanOpenEvents { memory, owner: OWNER, records: RECORDS };
        done(host.run(CLAN_COMMAND_OPEN_EVENTS, 0, &body))?;
        open_endpoints(&mut host, count, 0)?;
        open_windows(&mut host, count, 0)?;
        let mut page = UlnArea::default();
        for index in 0..count {
            let first = index % PIECES * LENGTH;
            if first == 0 {
                page = area(&host, PAGE);
            }
            let area = UlnArea { length: LENGTH.into(), first, ..page };
            let (key, owner, flags) = (KEY, OWNER, CLAN_APERTURE_WRITE);
            let body = ClanOpenAperture { area, key, owner, flags, ..Default::default() };
            done(host.run(CLAN_COMMAND_OPEN_APERTURE, index, &body))?;
            arm(&mut host, index);
        }
        let set = host.counted("tripwires_set").unwrap_or_default();
        ensure!(set == u64::from(count), "{set} of {count} Tripwires are armed");
        Ok(Self { host, requests: requests(count)?, queue, taken: 0 })
    }

    /// Delivers a request, takes its event, and stores a reply.
    fn serve(&mut self, connection: u32) {
        for bytes in &mut self.requests[connection as usize] {
            let packet = Packet { source: 0, bytes: VolatileSlice::from(&mut bytes[..]).into() };
            self.host.with_card(|card, ports, _| card.packet_arrived(ports, &packet));
        }
        self.taken += 1;
        self.host.put(self.queue + u64::from(CLAN_EVENTS_TAKEN), &self.taken.to_le_bytes());
        store(&mut self.host, connection);
        self.host.wire.forget();
    }

    /// Serves `count` requests, on the first `used` connections in turn. Returns the nanoseconds of
    /// each request.
    fn run(&mut self, used: u32, count: u32) -> f64 {
        let start = Instant::now();
        (0..count).for_each(|request| self.serve(request * STRIDE % used));
        start.elapsed().as_nanos() as f64 / f64::from(count)
    }
}

/// Arms the endpoint's Tripwire on the word that announces a request.
fn arm(host: &mut Host<ClanCard>, connection: u32) {
    let flags = CLAN_TRIPWIRE_ENABLE
        | CLAN_TRIPWIRE_WRITES
        | CLAN_TRIPWIRE_BIT
        | CLAN_TRIPWIRE_COUNT
        | CLAN_TRIPWIRE_EVENT;
    let words = [
        (CLAN_TRIPWIRE_OFFSET, READY),
        (CLAN_TRIPWIRE_LENGTH, 8),
        (CLAN_TRIPWIRE_TARGET, connection.into()),
        (CLAN_TRIPWIRE_CONTROL, flags.into()),
    ];
    for (at, value) in words {
        let place = u64::from(connection) * PAGE + u64::from(at);
        host.with_card(|card, ports, _| card.register_write(ports, 2, place, 8, value));
    }
}

/// Measures all points in turn, in rounds.
fn measure(effort: Effort) -> anyhow::Result<Vec<Measured>> {
    let count = effort.pick(10_000, 30_000);
    let mut cards = POINTS
        .map(|(open, used)| Ok((Serving::create(open)?, Measured { open, used, rounds: vec![] })))
        .into_iter()
        .collect::<anyhow::Result<Vec<_>>>()?;
    for _ in 0..effort.rounds() {
        for (serving, measured) in &mut cards {
            measured.rounds.push(serving.run(measured.used, count));
        }
    }
    for (serving, measured) in &cards {
        let wanted = u64::from(count) * measured.rounds.len() as u64;
        let events = serving.host.counted("events").unwrap_or_default();
        ensure!(events == wanted, "{events} events of {wanted} requests");
    }
    Ok(cards.into_iter().map(|(_, measured)| measured).collect())
}

/// Compares each point with the card with one connection.
fn table(measured: &[Measured]) -> Table {
    let one = measured.first().map(|one| one.rounds.clone()).unwrap_or_default();
    let note = "Nanoseconds that the card takes, alone on a host in memory: two packets arrive, a Tripwire fires, which is an event that its \
        owner takes, and two stores to the connection's window leave as packets.";
    Table::new(
        "CLAN: a request and its reply at the server's card",
        note,
        measured,
        &[
            ("connections", &|of| of.open.to_string()),
            ("of which used", &|of| of.used.to_string()),
            ("ns", &|of| text(median(of.rounds.clone()))),
            ("beside 1 connection", &|of| ratio(&of.rounds, &one)),
            ("spread", &|of| spread(&of.rounds, &one)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_an_event_and_two_packets() {
        let mut serving = Serving::create(20).unwrap();
        serving.run(20, 40);
        assert_eq!(serving.host.counted("events"), Some(40));
        assert_eq!(serving.host.counted("bytes_deposited"), Some(40 * 12));
        assert_eq!(serving.host.counted("bytes_sent"), Some(40 * 12));
    }

    #[test]
    fn each_point_is_compared_with_one_connection() {
        let measured = [(1, 1, 500.0), (1000, 1, 510.0)].map(|(open, used, ns)| Measured {
            open,
            used,
            rounds: vec![ns],
        });
        assert_eq!(table(&measured).rows[1], ["1000", "1", "510", "1.02", "1.02 to 1.02"]);
    }
}
