//! Tables of rates, from two readings.

use std::time::Duration;

use super::columns::{CARD, Column, Kind, LINK, PORT, WAITING};
use super::reading::{Reading, Row, Silent};
use crate::table;

/// A line of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Titles of columns.
    Title,
    /// Numbers.
    Plain,
    /// Numbers of what waits for others.
    Waiting,
    /// A process that does not answer.
    Silent,
}

/// Returns the lines of all tables. Without an earlier reading, rates are not known.
pub(super) fn lines(now: &Reading, before: Option<&Reading>) -> Vec<Line> {
    let mut all = Vec::new();
    for (lab, machines) in &now.machines {
        let lab = if lab.is_empty() { String::new() } else { format!(" of {lab}") };
        all.push(Line { text: format!("machines{lab}: {}", machines.join(", ")), tone: Tone::Plain });
    }
    for Silent { name, reason, .. } in &now.silent {
        all.push(Line { text: format!("{name} does not answer: {reason}"), tone: Tone::Silent });
    }
    let then = |rows: fn(&Reading) -> &Vec<Row>| before.map_or(&[][..], |before| rows(before));
    for (title, columns, rows, earlier) in [
        ("card", CARD, &now.cards, then(|reading| &reading.cards)),
        ("port", PORT, &now.ports, then(|reading| &reading.ports)),
        ("link", LINK, &now.links, then(|reading| &reading.links)),
    ] {
        if !rows.is_empty() {
            if !all.is_empty() {
                all.push(Line { text: String::new(), tone: Tone::Plain });
            }
            all.extend(section(title, columns, rows, earlier));
        }
    }
    all
}

fn section(title: &str, columns: &[Column], rows: &[Row], earlier: &[Row]) -> Vec<Line> {
    let titles = columns.iter().map(|column| column.title.to_owned());
    let head: Vec<String> = [title, "pid", "state"].map(str::to_owned).into_iter().chain(titles).collect();
    let cells = |row: &Row| {
        let old = earlier.iter().find(|old| old.is_same(row));
        let numbers = columns.iter().enumerate().map(|(at, column)| cell(column, row, old, at));
        let known = [row.name.clone(), row.pid.to_string(), row.state.to_owned()];
        known.into_iter().chain(numbers).collect::<Vec<String>>()
    };
    let waiting = columns.iter().position(|column| column.title == WAITING);
    let tone = |row: &Row| match waiting.and_then(|at| row.values[at]) {
        None | Some(0) => Tone::Plain,
        Some(_) => Tone::Waiting,
    };
    let tones = [Tone::Title].into_iter().chain(rows.iter().map(tone));
    let texts = table::lines([head].into_iter().chain(rows.iter().map(cells)));
    // The first column's padding is of use only below other text.
    texts.into_iter().zip(tones).map(|(text, tone)| Line { text: text[2..].to_owned(), tone }).collect()
}

/// Returns the text of a number, or a dash if it is not known.
fn cell(column: &Column, row: &Row, old: Option<&Row>, at: usize) -> String {
    let known = match column.kind {
        Kind::Amount => row.values[at].map(|value| short(value as f64)),
        Kind::Rate => old.and_then(|old| {
            let apart = row.at.saturating_duration_since(old.at);
            Some(short(rate(old.values[at]?, row.values[at]?, apart)?))
        }),
    };
    known.unwrap_or_else(|| "-".into())
}

/// Returns the change per second; none if the counter has begun anew, or no time has passed.
pub(super) fn rate(before: u64, now: u64, apart: Duration) -> Option<f64> {
    let grown = now.checked_sub(before)? as f64;
    (!apart.is_zero()).then(|| grown / apart.as_secs_f64())
}

/// Returns a number in at most six letters.
fn short(number: f64) -> String {
    let units = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    // 9999.5 would be 10000, which is 10.0k.
    let unit = units.iter().find(|(least, _)| number >= least * 0.999_95);
    match unit {
        Some((_, "k")) => three_digits(number / 1e3) + "k",
        Some((least, name)) => three_digits(number / least) + name,
        None if number >= 9.95 || number.fract() == 0.0 => format!("{number:.0}"),
        None => format!("{number:.1}"),
    }
}

fn three_digits(number: f64) -> String {
    match number {
        number if number < 9.995 => format!("{number:.2}"),
        number if number < 99.95 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use hamlyn_host::stat::{Answer, Report, StatError};
    use serde_json::{Value, json};

    use super::*;

    const SOCKET: &str = "/run/lab-a/fabric-1-7.stat";

    fn reading(at: Instant, pid: u32, counters: Value) -> Reading {
        let report = Ok(Report { kind: "fabric".into(), name: "fabric".into(), pid, counters });
        Reading::of(vec![Answer { socket: SOCKET.into(), at, report }], None)
    }

    fn counters(packets: u64, waiting: u64) -> Value {
        let card = json!({ "packets_sent": packets, "bytes_sent": packets * 4096, "refused_key": 3 });
        let port = json!({ "attached": true, "packets_in": packets, "waiting": waiting });
        json!({
            "cards": { "c0": { "host": 0, "machine": true, "enabled": true, "card": card } },
            "switch": { "ports": { "0": port } },
        })
    }

    fn words(line: &Line) -> Vec<&str> {
        line.text.split_whitespace().collect()
    }

    #[test]
    fn rates_are_the_change_per_second() {
        assert_eq!(rate(10, 30, Duration::from_secs(2)), Some(10.0));
        assert_eq!(rate(10, 11, Duration::from_millis(500)), Some(2.0));
        assert_eq!(rate(10, 10, Duration::from_secs(1)), Some(0.0));
        assert_eq!(rate(11, 10, Duration::from_secs(1)), None, "the counter has begun anew");
        assert_eq!(rate(10, 11, Duration::ZERO), None);
    }

    #[test]
    fn tables_have_rates_between_two_readings() {
        let start = Instant::now();
        let before = reading(start, 7, counters(100, 0));
        let now = reading(start + Duration::from_secs(2), 7, counters(300, 5));
        let lines = lines(&now, Some(&before));
        let tones: Vec<Tone> = lines.iter().map(|line| line.tone).collect();
        assert_eq!(tones, [Tone::Title, Tone::Plain, Tone::Plain, Tone::Title, Tone::Waiting]);
        assert_eq!(words(&lines[0])[..5], ["card", "pid", "state", "sent/s", "bytes/s"]);
        assert_eq!(words(&lines[1]), ["a/c0", "7", "up", "100", "410k", "-", "-", "0", "3", "-", "-"]);
        assert_eq!(
            words(&lines[4]),
            ["a/fabric:0", "7", "up", "100", "-", "-", "-", "5", "-", "-", "-", "-", "-"]
        );
        assert!(lines[1].text.starts_with("a/c0") && lines[2].text.is_empty());
    }

    #[test]
    fn other_process_has_no_rate_yet() {
        let start = Instant::now();
        let now = reading(start + Duration::from_secs(2), 8, counters(300, 0));
        for before in [None, Some(&reading(start, 7, counters(100, 0)))] {
            assert_eq!(words(&lines(&now, before)[1])[3..5], ["-", "-"]);
        }
    }

    #[test]
    fn machines_and_silent_processes_come_first() {
        let report = Err(StatError::Silent { socket: SOCKET.into(), patience: Duration::from_secs(5) });
        let mut now = Reading::of(vec![Answer { socket: SOCKET.into(), at: Instant::now(), report }], None);
        now.machines.insert("a".into(), vec!["vm0".into(), "vm1".into()]);
        let silent = format!("a/fabric (pid 7) does not answer: no counters from {SOCKET} within 5s");
        let due = [("machines of a: vm0, vm1".to_owned(), Tone::Plain), (silent, Tone::Silent)];
        assert_eq!(lines(&now, None), due.map(|(text, tone)| Line { text, tone }));
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (7.0, "7"),
            (9.96, "10"),
            (1234.4, "1234"),
            (9999.4, "9999"),
            (9999.6, "10.0k"),
            (12_345.0, "12.3k"),
            (123_456.0, "123k"),
            (999_960.0, "1.00M"),
            (1_234_567.0, "1.23M"),
            (9_996_000.0, "10.0M"),
            (5e9, "5.00G"),
            (u64::MAX as f64, "18.4E"),
        ] {
            assert_eq!(short(number), text, "{number}");
        }
    }
}
