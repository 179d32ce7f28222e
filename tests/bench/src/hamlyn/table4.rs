//! Table 4: the components of a short message's time, with the library and without it (section
//! 4.1).

use crate::engine::effort::Effort;
use crate::engine::estimates::Estimates;
use crate::engine::experiment::Experiment;
use crate::engine::goals::{beside, known, number};
use crate::engine::report::Table;
use crate::engine::stats::median;
use crate::engine::track::{Track, find, medians};
use crate::hamlyn::pairs::FABRIC;
use crate::hamlyn::parts::FAST;
use crate::hamlyn::turns::ESTIMATES;

/// How a program uses the card: the paper's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Without the library.
    Raw,
    /// With the library's tagged remote write.
    Tagged,
}

impl Way {
    const ALL: [Way; 2] = [Way::Raw, Way::Tagged];

    fn trip_name(self) -> &'static str {
        match self {
            Way::Raw => "16 bytes by the raw interface, both ends poll",
            Way::Tagged => "16 bytes by tagged remote write, both ends poll, in turn with the raw interface",
        }
    }

    fn software_name(self) -> &'static str {
        match self {
            Way::Raw => "software of both ends, raw interface, a card that does nothing",
            Way::Tagged => "software of both ends, tagged remote write, a card that does nothing",
        }
    }

    /// Returns the time of both ends' software for one message, in microseconds.
    fn software(self, tracks: &[Track]) -> Option<f64> {
        Some(1e6 / median(find(tracks, self.software_name())?.message_rates())?)
    }

    /// Returns the one-way time, round by round.
    fn halves(self, tracks: &[Track]) -> Vec<f64> {
        medians(tracks, self.trip_name()).into_iter().map(|trip| trip / 2.0).collect()
    }
}

/// Two switches between processes, which wake each other by semaphores (section 4.2).
const SWITCHES: &str = "a switch of processes by a semaphore, and back";

/// Both ways in turn.
pub(crate) const TRIPS: Experiment = Experiment {
    plan: |effort| {
        let count = format!("--count {}", effort.pick(2000, 20_000));
        vec![
            FABRIC.trips(Way::Raw.trip_name(), "raw", &count),
            FABRIC.trips(Way::Tagged.trip_name(), "card", &format!("--wait poll {count}")),
        ]
    },
    ..SHOWN
};

/// The software of both alone in the same machine.
pub(crate) const SOFTWARE: Experiment = Experiment {
    rounds: Effort::figure_rounds,
    plan: |effort| {
        let software = format!("software --count {}", effort.pick(20_000, 100_000));
        vec![
            FABRIC.alone(Way::Raw.software_name(), &format!("{software} --raw")),
            FABRIC.alone(Way::Tagged.software_name(), &software),
            FABRIC.alone(SWITCHES, &format!("switch --count {}", effort.pick(2000, 20_000))),
        ]
    },
    ..SHOWN
};

/// The table, once the components are known.
pub(crate) const TABLE_4: Experiment = Experiment {
    also: |run, _, tracks| {
        let parts = run.estimates(ESTIMATES);
        run.others.push(table(tracks, &parts));
        Ok(())
    },
    ..SHOWN
};

const SHOWN: Experiment = Experiment {
    name: "table-4",
    title: "Table 4",
    heading: "Table 4: with the library and without it",
    ..Experiment::NEW
};

/// The paper's lines, with or without a counterpart here: the name, and the time in both columns.
const PAPER: [(&str, f64, f64); 6] = [
    ("DMA", 3.3, 3.3),
    ("LANai", 6.7, 6.7),
    ("Switch", 0.5, 0.5),
    ("Host I/O writes", 1.4, 1.4),
    ("Host protocol software", 0.8, 2.2),
    ("Total", 12.7, 14.1),
];

/// A switch between processes by a semaphore, in microseconds (section 4.2).
const SWITCH: &str = "31";

/// The paper's estimate for a card of hardware state machines, in microseconds (section 4.4).
const HARDWARE: &str = "about 6";

/// Shows the paper's table together with the measured times.
fn table(tracks: &[Track], parts: &Estimates) -> Table {
    let columns = Way::ALL.map(|way| column(way, tracks, parts));
    let here = |line: usize| [0, 1].map(|way| columns[way][line].clone());
    let row = |name: &str, paper: [String; 2], [raw, tagged]: [String; 2]| {
        let [paper_raw, paper_tagged] = paper;
        [name.to_owned(), paper_raw, raw, paper_tagged, tagged]
    };
    let empty = String::new;
    let (total, rest) = (PAPER.len() - 1, PAPER.len());
    let mut rows: Vec<[String; 5]> = PAPER
        .iter()
        .enumerate()
        .map(|(line, (name, raw, tagged))| row(name, [*raw, *tagged].map(number), here(line)))
        .collect();
    rows.insert(total, row("The rest: wake-ups and emulation", [empty(), empty()], here(rest)));
    let [raw, tagged] = Way::ALL.map(|way| way.halves(tracks));
    let beside =
        Some(beside(&tagged, &raw)).filter(|text| !text.is_empty()).unwrap_or_else(|| "?".to_owned());
    let switch = known(find(tracks, SWITCHES).and_then(Track::one_way_us));
    let hardware = "4.4: expected of a card of hardware state machines";
    let times = "Total of tagged remote write / raw interface";
    rows.extend([
        row(hardware, [empty(), HARDWARE.to_owned()], here(total)),
        row("4.2: a switch of processes by a semaphore", [SWITCH.to_owned(), empty()], [switch, empty()]),
        row(times, [empty(), number(14.1 / 12.7)], [empty(), beside]),
    ]);
    Table::new(
        "Table 4: where the time of a short message goes, one way, us",
        NOTE,
        rows,
        &[
            ("", &|row| row[0].clone()),
            ("the paper: raw interface", &|row| row[1].clone()),
            ("here: raw interface", &|row| row[2].clone()),
            ("the paper: tagged remote write", &|row| row[3].clone()),
            ("here: tagged remote write", &|row| row[4].clone()),
        ],
    )
}

const NOTE: &str = "16 bytes in fast mode, both ends polling, in the pinned machines. Raw: the program stores the request into its \
    mapped terminus and looks at its notification queue's words itself; of the library it has what opens them. The totals are half of a \
    round trip, both measured in turn, with the ratio's median and where that lies. The lines above are parts of the same run: the host \
    protocol software in the guest, both ends of a message, with a card that does nothing; the card by criterion on the host, for the same message, with \
    nothing else running. DMA is a copy within the card's delivery, and stores into the mapped terminus are the software's; the switch \
    is passed by a call between cards of one process, which is within the rest; what it takes by rings is beside that. What has no counterpart is empty. The rest is the \
    total less the lines above it: a trapped store, a system call and a wake-up for each message, and what emulation adds. The switch of \
    processes is half of a round trip of two processes of one processor, each of which wakes the other by a semaphore of the kernel and sleeps.";

/// Returns the measured times for the paper's lines, in their order, and then the rest.
fn column(way: Way, tracks: &[Track], parts: &Estimates) -> Vec<String> {
    let both = |pair: (Option<f64>, Option<f64>)| Some(pair.0? + pair.1?);
    let card = both((parts.us(&format!("segmentation/{FAST}")), parts.us(&format!("delivery/{FAST}"))));
    let (software, total) = (way.software(tracks), median(way.halves(tracks)));
    let rest = both((card, software)).and_then(|known| Some(total? - known));
    let empty = String::new;
    let switch = parts
        .us("switch/64 bytes")
        .map_or_else(empty, |us| format!("a call (64 bytes by rings: {})", number(us)));
    vec![empty(), known(card), switch, empty(), known(software), known(total), known(rest)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(name: &str, us: u64) -> Track {
        let mut track = Track::of_samples(name, &[us * 1000]);
        // This many messages in the round's one nanosecond.
        track.rounds.iter_mut().for_each(|round| (round.messages, round.ns) = (1000, us * 1_000_000));
        track
    }

    #[test]
    fn rest_is_total_minus_known_components() {
        let tracks = [
            track(Way::Raw.trip_name(), 20),
            track(Way::Tagged.trip_name(), 30),
            track(Way::Raw.software_name(), 1),
            track(Way::Tagged.software_name(), 2),
            track(SWITCHES, 44),
        ];
        let parts = Estimates::of(&[
            ("segmentation/16 bytes, fast mode", 500.0),
            ("delivery/16 bytes, fast mode", 1500.0),
            // Other messages do not count.
            ("segmentation/64 bytes", 7000.0),
            ("delivery/64 bytes", 7000.0),
        ]);
        let table = table(&tracks, &parts);
        let row = |name: &str| table.rows.iter().find(|row| row[0].starts_with(name)).unwrap()[1..].to_vec();
        assert_eq!(row("LANai"), ["6.7", "2", "6.7", "2"]);
        assert_eq!(row("Switch")[1], "");
        assert_eq!(row("Host protocol"), ["0.8", "1", "2.2", "2"]);
        // The histogram has a limited resolution.
        let near = |text: &str, expected: f64| (text.parse::<f64>().unwrap() - expected).abs() < 0.02;
        let rest = row("The rest");
        assert!(near(&rest[1], 7.0) && near(&rest[3], 11.0), "{rest:?}");
        assert_eq!(table.rows[6], ["Total", "12.7", "10", "14.1", "15"]);
        assert_eq!(row("4.4"), ["", "10", "about 6", "15"]);
        assert_eq!(row("4.2"), ["31", "22", "", ""]);
        assert_eq!(row("Total of"), ["", "", "1.11", "1.5 (1.5 to 1.5)"]);
    }

    #[test]
    fn unmeasured_cells_are_empty() {
        let table = table(&[], &Estimates::default());
        assert_eq!(table.rows[5][2], "?");
        assert_eq!(table.rows[6][4], "?");
    }
}
