//! Connections between programs: what each side has sent and been told, and the expected results.
//!
//! An asker gets one result: that it is accepted, or the reason why not. Each side of a connection
//! is told once that the other has ended, with the true reason, and within a bounded time. Data
//! between the sides arrives unchanged, and at no other connection.

use std::collections::BTreeMap;

use hamlyn::{End, EndReason};

use crate::hamlyn::channels::Line;

/// The side that asked, in [`Record::sides`].
pub(super) const ASKER: usize = 0;
/// The side that was asked.
pub(super) const LISTENER: usize = 1;
/// Maximum number of requests that wait for a listener.
pub(super) const BACKLOG: u32 = 2;

/// The state of one side of a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Side {
    /// The process, once it takes part.
    pub(super) pid: Option<u64>,
    /// The reason for the end that it was told.
    pub(super) told: Option<EndReason>,
    /// When it left the connection, and the bytes with which it closed it, if it did.
    pub(super) gone: Option<(u64, Option<Vec<u8>>)>,
}

impl Side {
    pub(super) fn is_over(&self) -> bool {
        self.told.is_some() || self.gone.is_some()
    }
}

/// A connection that was asked for.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// The hosts of the sides.
    pub(super) hosts: [usize; 2],
    pub(super) name: String,
    /// When it was asked for (`asked`), and when the listener took the request (`claimed`), in
    /// milliseconds.
    pub(super) asked: u64,
    pub(super) claimed: Option<u64>,
    /// The data that the asker passed (`request`). Whether the listener accepted, and the data that
    /// it passed (`answer`).
    pub(super) request: Vec<u8>,
    pub(super) answer: Option<(bool, Vec<u8>)>,
    pub(super) sides: [Side; 2],
    /// The asker saw it established.
    pub(super) established: bool,
    /// Streams that it watches over.
    pub(super) streams: Vec<usize>,
    /// What the sides send through a channel that it watches over.
    pub(super) lines: [Line; 2],
}

/// Numbers of questions for a name, by answer.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Answers {
    pub(super) listening: u64,
    pub(super) not_listening: u64,
    pub(super) silent: u64,
}

/// All connections of a fabric.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) records: Vec<Record>,
    /// Connections in which at least one side still takes part.
    pub(super) live: Vec<usize>,
    /// For each name of a host, the last process that listened to it, and since when, if it still
    /// does.
    listened: BTreeMap<(usize, String), (u64, Option<u64>)>,
    /// For each name of a host, when a process last stopped listening to it.
    ceased: BTreeMap<(usize, String), u64>,
    /// Answers to questions.
    pub(super) answers: Answers,
    /// Ends that sides were told of, by reason.
    pub(super) ends: [u64; EndReason::ALL.len()],
    /// Sides whose host has lost its link since they were established: host, process, number. The
    /// system must tell them when it next looks at its card.
    pub(super) severed: Vec<(usize, u64, usize)>,
    /// When all faults had ended.
    pub(super) healed: Option<u64>,
}

impl Connections {
    /// Enters a request before it is made. Returns its number.
    pub(super) fn enter(&mut self, record: Record) -> usize {
        self.records.push(record);
        self.live.push(self.records.len() - 1);
        self.records.len() - 1
    }

    /// Notes that a process starts listening to a name.
    pub(super) fn listens(&mut self, host: usize, pid: u64, name: &str, now: u64) {
        self.listened.insert((host, name.to_owned()), (pid, Some(now)));
    }

    /// Notes that a process stops listening.
    pub(super) fn listens_no_more(&mut self, pid: u64, now: u64) {
        let own = self.listened.iter_mut().filter(|(_, (of, since))| *of == pid && since.is_some());
        for (name, (_, since)) in own {
            *since = None;
            self.ceased.insert(name.clone(), now);
        }
    }

    /// Returns a name that a process of a host listens to.
    pub(super) fn name_on(&self, host: usize) -> Option<String> {
        let here = self.listened.iter().find(|((on, _), (_, since))| *on == host && since.is_some());
        here.map(|((_, name), _)| name.clone())
    }

    /// Returns whether a process listened to a name at any moment from `time` on.
    pub(super) fn was_there_after(&self, host: usize, name: &str, time: u64) -> bool {
        let name = (host, name.to_owned());
        self.listened.get(&name).is_some_and(|(_, since)| since.is_some())
            || self.ceased.get(&name).is_some_and(|ceased| *ceased >= time)
    }

    /// Returns whether a process has listened to a name all the time since `time`.
    pub(super) fn was_there_since(&self, host: usize, name: &str, time: u64) -> bool {
        let listened = self.listened.get(&(host, name.to_owned()));
        listened.and_then(|(_, since)| *since).is_some_and(|since| since < time)
    }

    /// Notes that a side leaves a connection.
    pub(super) fn gone(&mut self, number: usize, side: usize, now: u64, closed: Option<Vec<u8>>) {
        let side = &mut self.records[number].sides[side];
        if !side.is_over() {
            side.gone = Some((now, closed));
        }
    }

    /// Notes that a process has died.
    pub(super) fn bury(&mut self, pid: u64, now: u64) {
        self.listens_no_more(pid, now);
        for index in 0..self.live.len() {
            for side in [ASKER, LISTENER] {
                let number = self.live[index];
                if self.records[number].sides[side].pid == Some(pid) {
                    self.gone(number, side, now, None);
                }
            }
        }
    }

    /// Returns the number of requests that may have waited together with this one.
    fn waited_beside(&self, number: usize) -> usize {
        let this = &self.records[number];
        let same = |other: &&Record| other.hosts[LISTENER] == this.hosts[LISTENER] && other.name == this.name;
        let beside = |other: &&Record| other.claimed.is_none_or(|claimed| claimed >= this.asked);
        self.records.iter().filter(same).filter(beside).count() - usize::from(this.claimed.is_none())
    }

    /// Returns whether a reason that a side was told is true, if it is a reason that lies with the
    /// other side.
    pub(super) fn is_so(&self, number: usize, side: usize, end: &End) -> bool {
        let record = &self.records[number];
        let other = &record.sides[1 - side];
        match end.reason {
            EndReason::Closed => matches!(&other.gone, Some((_, Some(bytes))) if *bytes == end.private),
            EndReason::Died => matches!(other.gone, Some((_, None))),
            EndReason::NoName => !self.was_there_since(record.hosts[LISTENER], &record.name, record.asked),
            EndReason::BacklogFull => self.waited_beside(number) >= BACKLOG as usize,
            EndReason::Rejected => match &record.answer {
                Some((accepted, bytes)) => !accepted && *bytes == end.private,
                None => false,
            },
            _ => false,
        }
    }

    /// Returns the number of established connections, and of requests that were not granted.
    pub(super) fn totals(&self) -> (u64, u64) {
        let records = &self.records;
        let established = records.iter().filter(|record| record.established).count();
        let refused =
            records.iter().filter(|record| !record.established && record.sides[ASKER].told.is_some());
        (established as u64, refused.count() as u64)
    }
}
