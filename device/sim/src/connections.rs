//! Connections between programs: what each side has said and been told, and what must become of it.
//!
//! An asker learns one thing: that it is accepted, or why not. Each side of a connection is told once that the other has ended,
//! with the true reason, and within a bounded time. What the sides pass each other arrives as it was, and at no
//! other connection.

use std::collections::BTreeMap;

use hamlyn::{End, EndReason};

use crate::questions::Answers;
use crate::violation::{Violation, ensure};
use crate::world::World;

/// The side that asked, in [`Record::sides`].
pub(crate) const ASKER: usize = 0;
/// The side that was asked.
pub(crate) const LISTENER: usize = 1;
/// Requests that may wait for a listener.
pub(crate) const BACKLOG: u32 = 2;

/// What one side has of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Side {
    /// The process, once it takes part.
    pub(crate) pid: Option<u64>,
    /// It was told of the end.
    pub(crate) told: Option<EndReason>,
    /// It has let go of it, at this time, and perhaps closed it with these bytes.
    pub(crate) gone: Option<(u64, Option<Vec<u8>>)>,
}

impl Side {
    fn is_over(&self) -> bool {
        self.told.is_some() || self.gone.is_some()
    }
}

/// A connection that was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// The hosts of the sides.
    pub(crate) hosts: [usize; 2],
    pub(crate) name: String,
    /// When it was asked for, and when the listener took the request, in milliseconds.
    pub(crate) asked: u64,
    pub(crate) claimed: Option<u64>,
    /// What the asker passed, and what the listener did: whether it accepted.
    pub(crate) request: Vec<u8>,
    pub(crate) answer: Option<(bool, Vec<u8>)>,
    pub(crate) sides: [Side; 2],
    /// The asker saw it established.
    pub(crate) established: bool,
    /// Streams that it watches over.
    pub(crate) streams: Vec<usize>,
}

/// All connections of a fabric.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub(crate) records: Vec<Record>,
    /// Connections that at least one side still takes part in.
    live: Vec<usize>,
    /// When a name of a host was last not listened to; it is, if it is here.
    listened: BTreeMap<(usize, String), (u64, Option<u64>)>,
    /// When a name of a host was last listened to, but for now.
    ceased: BTreeMap<(usize, String), u64>,
    /// What questions were told.
    pub(crate) answers: Answers,
    /// Ends that sides were told of, by reason.
    pub(crate) ends: [u64; EndReason::ALL.len()],
    /// Sides whose host has lost its link since they were established, and that are to be told when it looks: host, process,
    /// number.
    pub(crate) severed: Vec<(usize, u64, usize)>,
    /// When nothing hindered anybody any more.
    pub(crate) healed: Option<u64>,
}

impl Connections {
    /// Enters a request, before it is made; its number.
    pub(crate) fn enter(&mut self, record: Record) -> usize {
        self.records.push(record);
        self.live.push(self.records.len() - 1);
        self.records.len() - 1
    }

    /// A name is listened to from now on.
    pub(crate) fn listens(&mut self, host: usize, pid: u64, name: &str, now: u64) {
        self.listened.insert((host, name.to_owned()), (pid, Some(now)));
    }

    /// A process listens no more.
    pub(crate) fn listens_no_more(&mut self, pid: u64, now: u64) {
        let own = self.listened.iter_mut().filter(|(_, (of, since))| *of == pid && since.is_some());
        for (name, (_, since)) in own {
            *since = None;
            self.ceased.insert(name.clone(), now);
        }
    }

    /// A name that is listened to on a host.
    pub(crate) fn name_on(&self, host: usize) -> Option<String> {
        let here = self.listened.iter().find(|((on, _), (_, since))| *on == host && since.is_some());
        here.map(|((_, name), _)| name.clone())
    }

    /// Whether a name was listened to at any moment from this one on.
    pub(crate) fn was_there_after(&self, host: usize, name: &str, time: u64) -> bool {
        let name = (host, name.to_owned());
        self.listened.get(&name).is_some_and(|(_, since)| since.is_some())
            || self.ceased.get(&name).is_some_and(|ceased| *ceased >= time)
    }

    /// Whether it was all the time since then.
    pub(crate) fn was_there_since(&self, host: usize, name: &str, time: u64) -> bool {
        let listened = self.listened.get(&(host, name.to_owned()));
        listened.and_then(|(_, since)| *since).is_some_and(|since| since < time)
    }

    /// A side lets go of a connection.
    pub(crate) fn gone(&mut self, number: usize, side: usize, now: u64, closed: Option<Vec<u8>>) {
        let side = &mut self.records[number].sides[side];
        if !side.is_over() {
            side.gone = Some((now, closed));
        }
    }

    /// A process has died.
    pub(crate) fn bury(&mut self, pid: u64, now: u64) {
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

    /// Requests that may have waited beside this one.
    fn waited_beside(&self, number: usize) -> usize {
        let this = &self.records[number];
        let same = |other: &&Record| other.hosts[LISTENER] == this.hosts[LISTENER] && other.name == this.name;
        let beside = |other: &&Record| other.claimed.is_none_or(|claimed| claimed >= this.asked);
        self.records.iter().filter(same).filter(beside).count() - usize::from(this.claimed.is_none())
    }

    /// Whether a reason that a side was told is true, if it is one of the reasons that lie with the other side.
    fn is_so(&self, number: usize, side: usize, end: &End) -> bool {
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
}

impl World {
    /// The time, in milliseconds.
    pub(crate) fn now(&self) -> u64 {
        self.step * self.scenario.step_ms + self.skipped
    }

    /// Whether the operating system of a host has forgotten another since a time.
    fn has_renewed(&self, host: usize, other: usize, since: u64) -> bool {
        let well_known = self.hosts[host].machine.well_known();
        well_known.as_ref().is_some_and(|own| own.system().renewed(other as u32) >= since)
    }

    /// A side is told of the end, for the first time: it must be so.
    pub(crate) fn is_told(&mut self, number: usize, side: usize, end: &End) -> Result<(), Violation> {
        let record = &self.connections.records[number];
        let (own, other) = (record.hosts[side], record.hosts[1 - side]);
        let host = &self.hosts[own];
        let so = match end.reason {
            EndReason::HostLost => self.has_renewed(own, other, record.asked),
            EndReason::HostReset => self.has_renewed(other, own, record.asked),
            EndReason::LinkLost => host.was_unplugged && self.has_renewed(own, other, record.asked),
            EndReason::Lapsed => {
                host.machine.tables().has_lapsed && self.has_renewed(own, other, record.asked)
            }
            _ => self.connections.is_so(number, side, end),
        };
        let wrong = |what: &str| {
            Violation::new(format!("connection {number}, side {side} {what} {end:?}: {record:?}"))
        };
        ensure(!record.sides[side].is_over(), || wrong("is told twice"))?;
        ensure(so, || wrong("is told what is not so"))?;
        self.connections.records[number].sides[side].told = Some(end.reason);
        let index = EndReason::ALL.iter().position(|reason| *reason == end.reason);
        index.iter().for_each(|index| self.connections.ends[*index] += 1);
        self.note(|| format!("connection {number}, side {side} ends: {end:?}"));
        Ok(())
    }

    /// How long it may take, once nothing hinders anybody, until a side is told that the other is gone.
    fn patience(&self) -> u64 {
        let rounds = 300 * (self.hosts.len() as u64 + 1) * self.scenario.step_ms;
        3 * self.scenario.peer_timeout_ms + rounds
    }

    /// Whoever has lost its peer is told in time.
    pub(crate) fn check_connections(&mut self) -> Result<(), Violation> {
        let (now, patience) = (self.now(), self.patience());
        let Connections { records, live, healed, .. } = &mut self.connections;
        live.retain(|number| {
            let [asker, listener] = &records[*number].sides;
            !(asker.is_over() && (listener.is_over() || listener.pid.is_none()))
        });
        let Some(healed) = *healed else { return Ok(()) };
        for number in live.iter() {
            let [asker, listener] = &records[*number].sides;
            let since = match (&asker.gone, &listener.gone) {
                (Some((at, _)), _) | (_, Some((at, _))) => *at,
                // Nobody answers.
                _ if listener.pid.is_none() => healed,
                _ => continue,
            };
            ensure(now <= healed.max(since) + patience, || {
                format!("connection {number}: a side was not told: {:?}", records[*number])
            })?;
        }
        Ok(())
    }

    /// Everything is over, and each side knows. Nothing is left of it anywhere.
    pub(crate) fn check_connections_at_rest(&mut self) -> Result<(), Violation> {
        self.check_connections()?;
        self.check_questions_at_rest()?;
        if let Some(number) = self.connections.live.first() {
            let record = &self.connections.records[*number];
            return Err(Violation::new(format!(
                "work has stopped, but connection {number} is not over: {record:?}"
            )));
        }
        for host in &self.hosts {
            let well_known = host.machine.well_known();
            let Some(own) = well_known.as_ref() else { continue };
            ensure(own.system().table_sizes() == (0, 0, 0), || {
                format!("host {}: work has stopped, but its system still has {:?}", host.id, own.system())
            })?;
        }
        Ok(())
    }

    /// Connections that were established, and requests that were not granted.
    pub(crate) fn connection_totals(&self) -> (u64, u64) {
        let records = &self.connections.records;
        let established = records.iter().filter(|record| record.established).count();
        let refused =
            records.iter().filter(|record| !record.established && record.sides[ASKER].told.is_some());
        (established as u64, refused.count() as u64)
    }
}
