//! One reading of all counters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hamlyn_host::rundir;
use hamlyn_host::stat::{self, Answer, Report, StatError};
use serde_json::Value;

use super::columns::{CARD, Column, LINK, PORT};
use crate::commands::machines;
use crate::commands::stat::parts::{cards, object, switch};

/// What all processes of this user counted at about the same time.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Names of running machines by lab.
    pub(super) machines: BTreeMap<String, Vec<String>>,
    pub(super) cards: Vec<Row>,
    pub(super) ports: Vec<Row>,
    pub(super) links: Vec<Row>,
    /// Processes that did not answer.
    pub(super) silent: Vec<Silent>,
    /// Names of the processes by socket. A process that does not answer keeps its name.
    names: BTreeMap<PathBuf, String>,
}

/// A process that did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Silent {
    socket: PathBuf,
    pub(super) name: String,
    pub(super) reason: String,
}

/// A card, a port or a link.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Socket of its process. No other process has it at the same time.
    socket: PathBuf,
    pub(super) name: String,
    pub(super) pid: u32,
    /// When its process answered.
    pub(super) at: Instant,
    pub(super) state: &'static str,
    /// A number for each column.
    pub(super) values: Vec<Option<u64>>,
}

impl Row {
    /// Returns whether the other row is of the same thing.
    pub(super) fn is_same(&self, other: &Row) -> bool {
        (&self.socket, self.pid, &self.name) == (&other.socket, other.pid, &other.name)
    }
}

/// How long a process is waited for that has not answered before: it must not delay each reading.
const AGAIN: Duration = Duration::from_secs(1);

/// Reads the counters of all running processes. `before` has the names of those that do not answer.
pub(super) fn take(before: Option<&Reading>) -> anyhow::Result<Reading> {
    let patience = |socket: &Path| match before.is_some_and(|before| before.is_silent(socket)) {
        true => AGAIN,
        false => stat::PATIENCE,
    };
    let mut reading = Reading::of(stat::survey(patience)?, before);
    for machine in machines::all()? {
        reading.machines.entry(lab(&machine.lab)).or_default().push(machine.name);
    }
    Ok(reading)
}

impl Reading {
    /// Returns the reading that these answers make.
    pub(super) fn of(answers: Vec<Answer>, before: Option<&Reading>) -> Reading {
        let mut reading = Reading::default();
        for Answer { socket, at, report } in answers {
            match report {
                Ok(report) => reading.add(socket, at, &report),
                // It ended between two calls.
                Err(StatError::Ended(_)) => {}
                Err(error) => {
                    let known = before.and_then(|before| before.names.get(&socket)).cloned();
                    let name = known.unwrap_or_else(|| unknown(&socket));
                    reading.names.insert(socket.clone(), name.clone());
                    reading.silent.push(Silent { socket, name, reason: error.to_string() });
                }
            }
        }
        for rows in [&mut reading.cards, &mut reading.ports, &mut reading.links] {
            // card2 is before card10.
            rows.sort_by(|one, other| {
                let key = |row: &Row| (row.socket.parent().map(Path::to_owned), row.name.len());
                key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
            });
        }
        reading
    }

    /// Returns whether no process runs.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn is_silent(&self, socket: &Path) -> bool {
        self.silent.iter().any(|silent| silent.socket == socket)
    }

    fn add(&mut self, socket: PathBuf, at: Instant, report: &Report) {
        let pid = report.pid;
        let row = |name: String, state, columns: &[Column], counters: &Value| {
            let values = columns.iter().map(|column| (column.value)(counters)).collect();
            Row { socket: socket.clone(), name, pid, at, state, values }
        };
        for (name, card) in cards(report) {
            self.cards.push(row(within(&socket, name), card_state(card), CARD, card));
        }
        let switch = switch(report);
        let place = |which: &str| within(&socket, &format!("{}:{which}", report.name));
        for (which, port) in object(&switch["ports"]) {
            self.ports.push(row(place(which), port_state(port), PORT, port));
        }
        for (which, link) in object(&switch["links"]) {
            self.links.push(row(place(which), "", LINK, link));
        }
        let name = format!("{} (pid {pid})", within(&socket, &report.name));
        self.names.insert(socket, name);
    }
}

fn card_state(card: &Value) -> &'static str {
    match (card["host"].as_u64(), card["machine"].as_bool(), card["enabled"].as_bool()) {
        (None, ..) => "no link",
        (_, Some(false), _) => "no machine",
        (_, _, Some(false)) => "disabled",
        _ => "up",
    }
}

fn port_state(port: &Value) -> &'static str {
    if port["attached"].as_bool() == Some(true) { "up" } else { "absent" }
}

/// Returns the name of a lab by its directory; empty for the run directory itself.
fn lab(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(rundir::LAB).unwrap_or_default().to_owned()
}

/// Returns a name together with that of its lab.
fn within(socket: &Path, name: &str) -> String {
    match lab(socket.parent().unwrap_or(socket)) {
        lab if lab.is_empty() => name.to_owned(),
        lab => format!("{lab}/{name}"),
    }
}

/// Returns the name of a process that has not reported its own.
fn unknown(socket: &Path) -> String {
    match stat::owner(socket) {
        Some((kind, pid)) => format!("{} (pid {pid})", within(socket, kind)),
        None => socket.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CARD0: &str = "/run/lab-pair/card-1-7.stat";

    fn answer(socket: &str, report: Result<Report, StatError>) -> Answer {
        Answer { socket: socket.into(), at: Instant::now(), report }
    }

    fn report(kind: &str, name: &str, pid: u32, counters: Value) -> Result<Report, StatError> {
        Ok(Report { kind: kind.into(), name: name.into(), pid, counters })
    }

    fn names(rows: &[Row]) -> Vec<(&str, &str)> {
        rows.iter().map(|row| (row.name.as_str(), row.state)).collect()
    }

    #[test]
    fn labs_name_their_cards_and_ports() {
        let up = json!({ "host": 0, "machine": true, "enabled": true });
        let cards = json!({ "c10": up, "c9": { "host": null } });
        let ports = json!({ "0": { "attached": true }, "10": {}, "9": {} });
        let fabric = json!({ "cards": cards, "switch": { "ports": ports, "links": { "5.east": {} } } });
        let reading = Reading::of(
            vec![
                answer("/run/fabric-1-9.stat", report("fabric", "fabric", 9, fabric)),
                answer(CARD0, report("card", "card0", 7, json!({ "host": 1, "machine": false }))),
            ],
            None,
        );
        let cards = [("c9", "no link"), ("c10", "up"), ("pair/card0", "no machine")];
        assert_eq!(names(&reading.cards), cards);
        assert_eq!(
            names(&reading.ports),
            [("fabric:0", "up"), ("fabric:9", "absent"), ("fabric:10", "absent")]
        );
        assert_eq!(names(&reading.links), [("fabric:5.east", "")]);
        assert!(reading.silent.is_empty() && !reading.is_empty());
    }

    #[test]
    fn silent_process_keeps_its_name() {
        let silent = || {
            let error = StatError::Silent { socket: CARD0.into(), patience: stat::PATIENCE };
            answer(CARD0, Err(error))
        };
        let said = |name: &str| Silent {
            socket: CARD0.into(),
            name: name.into(),
            reason: format!("no counters from {CARD0} within 5s"),
        };
        let unknown = Reading::of(vec![silent()], None);
        assert_eq!(unknown.silent, [said("pair/card (pid 7)")]);
        let known = Reading::of(vec![answer(CARD0, report("card", "card0", 7, json!({})))], None);
        let first = Reading::of(vec![silent()], Some(&known));
        let second = Reading::of(vec![silent()], Some(&first));
        assert_eq!(second.silent, [said("pair/card0 (pid 7)")]);
        assert!(second.cards.is_empty() && !second.is_empty());
        assert!(second.is_silent(Path::new(CARD0)) && !known.is_silent(Path::new(CARD0)));
    }

    #[test]
    fn ended_process_is_not_shown() {
        let known = Reading::of(vec![answer(CARD0, report("card", "card0", 7, json!({})))], None);
        let ended = Reading::of(vec![answer(CARD0, Err(StatError::Ended(CARD0.into())))], Some(&known));
        assert!(ended.is_empty() && ended.cards.is_empty() && ended.silent.is_empty());
    }

    #[test]
    fn cards_that_are_not_enabled_are_disabled() {
        let state = |enabled: bool| card_state(&json!({ "host": 0, "machine": true, "enabled": enabled }));
        assert_eq!((state(false), state(true)), ("disabled", "up"));
    }
}
