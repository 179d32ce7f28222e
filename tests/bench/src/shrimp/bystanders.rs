//! The cost of snooping a machine's stores to programs that do not communicate. The same loops run
//! in machines without the plugin and in one with it. There, no page is mapped out at first; then
//! another process has a page mapped out.

use anyhow::Context;

use crate::engine::effort::Effort;
use crate::engine::exchange::{Exchange, words};
use crate::engine::experiment::{Experiment, Running};
use crate::engine::goals::{ratio, spread, text};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::site::{PROGRAM, Program};
use crate::engine::stats::median;
use crate::engine::track::{Track, interleave};
use crate::shrimp::pairs::{HAMLYN, SNOOPED, WINDOW};

pub(crate) const BYSTANDERS: Experiment = Experiment {
    name: "bystanders",
    heading: "SHRIMP: loops of programs that do not communicate",
    pairs: &[SNOOPED, WINDOW, HAMLYN],
    also: |run, running, tracks| {
        let (effort, progress) = (run.request.effort, run.progress);
        let title = "SHRIMP: programs that do not communicate";
        let measured = progress.part(title, || measure(running, effort, progress));
        tracks.extend(run.noted(measured).unwrap_or_default());
        Ok(())
    },
    tables: |tracks| vec![table(tracks)],
    ..Experiment::NEW
};

/// The loops: the label, the program's option, and the number of iterations in some 100 ms.
const LOOPS: [(&str, &str, u64); 3] = [
    ("a store of 8 bytes, in 64 KiB in turn", "stores", 10_000_000),
    ("arithmetic in registers", "registers", 20_000_000),
    ("a copy of 64 KiB", "copies", 10_000),
];
/// The machines' configurations.
const PLACES: [&str; 3] = ["no plugin", "plugin, nothing mapped out", "plugin, a page mapped out"];

/// Two processes. The near one has a page mapped out as long as this value exists.
struct Held([Program; 2]);

impl Held {
    fn start(machines: &Machines) -> anyhow::Result<Self> {
        let role = words("page-hold --by snoop");
        let mut ends = [machines.near().start(PROGRAM, &role)?, machines.far().start(PROGRAM, &role)?];
        let mut tickets = Vec::new();
        for end in &mut ends {
            let said = end.answer()?;
            tickets
                .push(said["ticket"].as_str().with_context(|| format!("{said} is not a ticket"))?.to_owned());
        }
        for (end, ticket) in ends.iter_mut().zip(tickets.iter().rev()) {
            end.say(ticket)?;
        }
        for end in &mut ends {
            end.answer()?;
        }
        Ok(Self(ends))
    }

    /// Ends both. Fails if one of them has exited before, because the mapping was then lost.
    fn finish(mut self) -> anyhow::Result<()> {
        self.0.iter_mut().try_for_each(|end| end.say("enough"))?;
        self.0.iter_mut().try_for_each(|end| end.finish().map(drop))
    }
}

/// Runs every loop in every configuration, loop by loop. Fails if this host cannot snoop a
/// machine's stores.
fn measure(running: &Running, effort: Effort, progress: &Progress) -> anyhow::Result<Vec<Track>> {
    let snooped = running.get(SNOOPED).context("no machine's stores can be seen here")?;
    let window = running.get(WINDOW).context("no machines store to window pages")?;
    let idle = measure_in(&[(PLACES[0], window), (PLACES[1], snooped)], effort, progress);
    let held = Held::start(snooped)?;
    let mapped = measure_in(&[(PLACES[0], window), (PLACES[2], snooped)], effort, progress);
    held.finish()?;
    Ok(idle.into_iter().chain(mapped).collect())
}

fn name(what: &str, place: &str) -> String {
    format!("{what}: {place}")
}

fn measure_in(places: &[(&str, &Machines)], effort: Effort, progress: &Progress) -> Vec<Track> {
    let mut exchanges = Vec::new();
    for (what, role, count) in LOOPS {
        let role = format!("bystander --loop {role} --count {}", count * effort.pick(1, 4));
        for (place, machines) in places {
            exchanges.push((name(what, place), Exchange::alone(machines.near(), &role)));
        }
    }
    interleave(&exchanges, effort.rounds(), progress)
}

/// Returns nanoseconds per iteration, round by round.
fn times(track: &Track) -> Vec<f64> {
    track.message_rates().into_iter().map(|rate| 1e9 / rate).collect()
}

/// Shows the results in a table. Each one is compared with the machine without the plugin, measured
/// in turn with it.
fn table(tracks: &[Track]) -> Table {
    // In each of the two measurements: without the plugin, and with it.
    let pairs = tracks.chunks_exact(2).map(|pair| (&pair[1].name, times(&pair[1]), times(&pair[0])));
    let note = "One turn of a loop, in a process that has nothing to do with the card. Code tells of its stores only while \
        something is mapped out for automatic update; a page that a store was to lately is then known not to be watched.";
    Table::new(
        "SHRIMP: what snooping costs programs that do not communicate",
        note,
        pairs,
        &[
            ("", &|(name, ..)| (*name).clone()),
            ("ns", &|(_, with, _)| text(median(with.clone()))),
            ("without the plugin, ns", &|(.., without)| text(median(without.clone()))),
            ("ratio", &|(_, with, without)| ratio(with, without)),
            ("spread", &|(_, with, without)| spread(with, without)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loop_is_compared_without_the_plugin() {
        let track = |name: &str, ns| {
            let mut track = Track::of_samples(name, &[]);
            (track.rounds[0].ns, track.rounds[0].messages) = (ns, 10);
            track
        };
        let table = table(&[track("without", 100), track("with", 150)]);
        assert_eq!(table.rows, [["with", "15", "10", "1.5", "1.5 to 1.5"]]);
        assert!(super::table(&[]).rows.is_empty());
    }
}
