//! The exchanges of an experiment, declared before any machine runs.

use crate::engine::exchange::Exchange;
use crate::engine::machines::{Machines, Pair};
use crate::engine::site::{PROGRAM, Site};
use crate::engine::track::Track;

/// An exchange between the ends of a pair.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Its name in the report.
    pub name: String,
    /// The key of the plot that it belongs to, if there are several below its heading.
    pub plot: &'static str,
    /// The row or the curve that it belongs to.
    pub label: String,
    /// Its position on a curve.
    pub x: u64,
    /// Its machines.
    pub pair: Pair,
    /// Whether it is left out if only goals are measured.
    pub is_extra: bool,
    program: &'static str,
    near: String,
    far: Option<String>,
    site: fn(&Machines, usize) -> Site<'_>,
    by_vsock: bool,
}

impl Pair {
    /// An exchange between both ends.
    pub fn exchange(self, name: impl Into<String>, near: &str, far: &str) -> Planned {
        Planned { far: Some(far.to_owned()), ..self.alone(name, near) }
    }

    /// Round trips, by a pair of roles.
    pub fn trips(self, name: impl Into<String>, role: &str, arguments: &str) -> Planned {
        self.exchange(name, &format!("{role}-ping {arguments}"), &format!("{role}-echo {arguments}"))
    }

    /// Messages one way, by a pair of roles.
    pub fn stream(self, name: impl Into<String>, role: &str, arguments: &str) -> Planned {
        self.exchange(name, &format!("{role}-send {arguments}"), &format!("{role}-sink {arguments}"))
    }

    /// A program alone at the near end.
    pub fn alone(self, name: impl Into<String>, near: &str) -> Planned {
        let (name, near) = (name.into(), near.to_owned());
        Planned {
            label: name.clone(),
            name,
            plot: "",
            x: 0,
            pair: self,
            is_extra: false,
            program: PROGRAM,
            near,
            far: None,
            site: Machines::site,
            by_vsock: false,
        }
    }
}

impl Planned {
    /// Runs it as root, which may lock any amount of memory.
    pub fn by_root(self) -> Self {
        Self { site: |machines, index| Site::Root(machines.lab.vm(index)), ..self }
    }

    /// Runs it on the host, without a card.
    pub fn on_host(self) -> Self {
        Self { site: |_, _| Site::Host(None), ..self }
    }

    /// Uses another program than the benchmark's own.
    pub fn of(self, program: &'static str) -> Self {
        Self { program, ..self }
    }

    /// Belongs to this row or curve, at this position.
    pub fn at(self, label: impl Into<String>, x: u64) -> Self {
        Self { label: label.into(), x, ..self }
    }

    /// Belongs to the plot with this key.
    pub fn on(self, plot: &'static str) -> Self {
        Self { plot, ..self }
    }

    /// Is left out if only goals are measured.
    pub fn extra(self) -> Self {
        Self { is_extra: true, ..self }
    }

    /// Is left out without vsock, which not every host has.
    pub fn by_vsock(self) -> Self {
        Self { by_vsock: true, ..self }
    }

    /// Gives the measurement its place in the report.
    pub(crate) fn place(&self, track: &mut Track) {
        (track.label, track.plot, track.x) = (self.label.clone(), self.plot, self.x);
    }

    /// Returns the exchange between these machines, or none if they lack a device for it.
    pub(crate) fn between<'a>(&self, machines: &'a Machines) -> Option<Exchange<'a>> {
        let [near, far] = [0, 1].map(|index| (self.site)(machines, index));
        let exchange = match &self.far {
            Some(role) => Exchange::between(near, &self.near, far, role),
            None => Exchange::alone(near, &self.near),
        };
        let uses_card = self.far.is_some() && !matches!(exchange.near.0, Site::Host(None));
        let exchange = if uses_card { exchange.watching(&machines.processes) } else { exchange };
        (!self.by_vsock || machines.has_vsock()).then(|| exchange.of(self.program))
    }
}

#[cfg(test)]
impl Planned {
    /// Makes up a measurement, of one round: times unless it is a stream, and bytes unless it is a
    /// round trip.
    pub(crate) fn made_up(&self) -> Track {
        let is = |roles: &[&str]| roles.iter().any(|role| self.near.contains(role));
        let is_stream = is(&["-send", "memcpy", "hand-over"]);
        let mut track = Track::of_samples(&self.name, if is_stream { &[] } else { &[20_000] });
        let round = &mut track.rounds[0];
        (round.messages, round.all, round.ns, round.cpu_ns) = (10, 20, 1_000_000, [1000, 2000]);
        round.bytes = if is(&["-ping"]) { 0 } else { 64_000 };
        round.watched_ns = ["fabric", "vm0", "vm1"].map(|name| (name.to_owned(), 50_000)).into();
        let names =
            ["packets_sent", "bytes_sent", "stores_seen", "stores_to_window", "messages_sent", "doorbells"];
        round.counters[0] = names.iter().map(|name| ((*name).to_owned(), 100_u64)).collect();
        self.place(&mut track);
        track
    }
}
