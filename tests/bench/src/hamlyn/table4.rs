//! Table 4: the components of a short message's time, with the library and without it (section
//! 4.1).

use crate::engine::effort::Effort;
use crate::engine::estimates::Estimates;
use crate::engine::exchange::Exchange;
use crate::engine::goals::{beside_text, number};
use crate::engine::machines::Machines;
use crate::engine::progress::Progress;
use crate::engine::report::Table;
use crate::engine::stats::median;
use crate::engine::track::{Track, find, interleave};
use crate::hamlyn::parts::FAST;

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
        let medians = find(tracks, self.trip_name()).map(Track::medians_us).unwrap_or_default();
        medians.into_iter().map(|trip| trip / 2.0).collect()
    }
}

/// Two switches between processes, which wake each other by semaphores (section 4.2).
const SWITCHES: &str = "a switch of processes by a semaphore, and back";

/// Measures both ways in turn, and the software of both alone in the same machine.
pub fn measure(machines: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    let count = effort.pick(2000, 20_000);
    let software = |more: &str| {
        let role = format!("software --count {} {more}", effort.pick(20_000, 100_000));
        Exchange::alone(machines.near(), &role)
    };
    let trips = [
        (Way::Raw.trip_name(), machines.round_trips("raw", &format!("--count {count}"))),
        (Way::Tagged.trip_name(), machines.round_trips("card", &format!("--wait poll --count {count}"))),
    ];
    let switches = Exchange::alone(machines.near(), &format!("switch --count {count}"));
    let alone = [
        (Way::Raw.software_name(), software("--raw")),
        (Way::Tagged.software_name(), software("")),
        (SWITCHES, switches),
    ];
    let mut tracks = interleave(&trips, effort.rounds(), progress);
    tracks.extend(interleave(&alone, effort.figure_rounds(), progress));
    tracks
}

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
pub fn table(tracks: &[Track], parts: &Estimates) -> Table {
    let columns = Way::ALL.map(|way| column(way, tracks, parts));
    let mut rows: Vec<Vec<String>> = PAPER
        .iter()
        .enumerate()
        .map(|(line, (name, raw, tagged))| {
            let [own_raw, own_tagged] = [0, 1].map(|way| columns[way][line].clone());
            vec![(*name).to_owned(), number(*raw), own_raw, number(*tagged), own_tagged]
        })
        .collect();
    let [raw_rest, tagged_rest] = [0, 1].map(|way| columns[way][PAPER.len()].clone());
    let rest = "The rest: wake-ups and emulation".to_owned();
    rows.insert(PAPER.len() - 1, vec![rest, String::new(), raw_rest, String::new(), tagged_rest]);
    let [raw, tagged] = Way::ALL.map(|way| way.halves(tracks));
    let [ratio, spread] = beside_text(&tagged, &raw);
    let expected = "4.4: expected of a card of hardware state machines".to_owned();
    let totals = columns.map(|column| column[PAPER.len() - 1].clone());
    let [own_raw, own_tagged] = totals;
    rows.push(vec![expected, String::new(), own_raw, HARDWARE.to_owned(), own_tagged]);
    let switches = find(tracks, SWITCHES).and_then(|track| median(track.medians_us()));
    let switch = switches.map_or_else(|| "?".to_owned(), |us| number(us / 2.0));
    let name = "4.2: a switch of processes by a semaphore".to_owned();
    rows.push(vec![name, SWITCH.to_owned(), switch, String::new(), String::new()]);
    let times = "Total of tagged remote write / raw interface".to_owned();
    let beside = if ratio.is_empty() { "?".to_owned() } else { format!("{ratio} ({spread})") };
    rows.push(vec![times, String::new(), String::new(), number(14.1 / 12.7), beside]);
    Table {
        title: "Table 4: where the time of a short message goes, one way, us".to_owned(),
        note: NOTE.to_owned(),
        head: head(),
        rows,
    }
}

const NOTE: &str = "16 bytes in fast mode, both ends polling, in the pinned machines. Raw: the program stores the request into its \
    mapped terminus and looks at its notification queue's words itself; of the library it has what opens them. The totals are half of a \
    round trip, both measured in turn, with the ratio's median and where that lies. The lines above are parts of the same run: the host \
    protocol software in the guest, both ends of a message, with a card that does nothing; the card by criterion on the host, for the same message, with \
    nothing else running. DMA is a copy within the card's delivery, and stores into the mapped terminus are the software's; the switch \
    is passed by a call between cards of one process, which is within the rest; what it takes by rings is beside that. What has no counterpart is empty. The rest is the \
    total less the lines above it: a trapped store, a system call and a wake-up for each message, and what emulation adds. The switch of \
    processes is half of a round trip of two processes of one processor, each of which wakes the other by a semaphore of the kernel and sleeps.";

fn head() -> Vec<String> {
    [
        "",
        "the paper: raw interface",
        "here: raw interface",
        "the paper: tagged remote write",
        "here: tagged remote write",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Returns the measured times for the paper's lines, in their order, and then the rest.
fn column(way: Way, tracks: &[Track], parts: &Estimates) -> Vec<String> {
    let both = |pair: (Option<f64>, Option<f64>)| Some(pair.0? + pair.1?);
    let card = both((parts.us(&format!("segmentation/{FAST}")), parts.us(&format!("delivery/{FAST}"))));
    let (software, total) = (way.software(tracks), median(way.halves(tracks)));
    let rest = both((card, software)).and_then(|known| Some(total? - known));
    let text = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), number);
    let empty = String::new;
    let switch = parts
        .us("switch/64 bytes")
        .map_or_else(empty, |us| format!("a call (64 bytes by rings: {})", number(us)));
    vec![empty(), text(card), switch, empty(), text(software), text(total), text(rest)]
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
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        assert_eq!(table.rows[5][2], "?");
        assert_eq!(table.rows[6][4], "?");
    }
}
