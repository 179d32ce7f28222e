//! The ends of connections: the end that a side is told is true, no side is left out, and at rest
//! nothing remains.

use hamlyn::{End, EndReason, PeerLoss};

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::around::Around;
use crate::hamlyn::connections::Connections;
use crate::hamlyn::questions;

/// Checks what sides of connections are told.
pub(super) struct Watcher<'a> {
    pub(super) around: Around<'a>,
    pub(super) connections: &'a mut Connections,
}

impl Watcher<'_> {
    /// Returns whether the operating system of a host has forgotten another host since a time.
    pub(super) fn has_renewed(&self, host: usize, other: usize, since: u64) -> bool {
        let well_known = self.around.hosts[host].machine.well_known();
        well_known.as_ref().is_some_and(|own| own.system().renewed(other as u32) >= since)
    }

    /// Returns whether the other side of a connection has gone, or its host and this one have
    /// forgotten each other.
    pub(super) fn is_parted(&self, record: usize, side: usize) -> bool {
        let record = &self.connections.records[record];
        let (own, other) = (record.hosts[side], record.hosts[1 - side]);
        record.sides[1 - side].is_over()
            || self.has_renewed(own, other, record.asked)
            || self.has_renewed(other, own, record.asked)
    }

    /// Checks the end that a side is told: it must be the first one, and true.
    pub(super) fn is_told(&mut self, number: usize, side: usize, end: &End) -> Result<(), Violation> {
        let record = &self.connections.records[number];
        let (own, other) = (record.hosts[side], record.hosts[1 - side]);
        let host = &self.around.hosts[own];
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
        self.around.note(|| format!("connection {number}, side {side} ends: {end:?}"));
        Ok(())
    }

    /// Checks the reason why a side of a channel has lost the other: it must be true.
    pub(super) fn check_loss(&self, number: usize, side: usize, loss: PeerLoss) -> Result<(), Violation> {
        let record = &self.connections.records[number];
        let (own, other) = (record.hosts[side], record.hosts[1 - side]);
        let host = &self.around.hosts[own];
        let has_lapsed = host.machine.tables().has_lapsed;
        let so = match loss {
            PeerLoss::Abandoned => matches!(record.sides[1 - side].gone, Some((_, Some(_)))),
            PeerLoss::Process => matches!(record.sides[1 - side].gone, Some((_, None))),
            PeerLoss::Host => self.has_renewed(own, other, record.asked),
            PeerLoss::HostReset => self.has_renewed(other, own, record.asked),
            PeerLoss::Link => {
                (host.was_unplugged || has_lapsed) && self.has_renewed(own, other, record.asked)
            }
            // The memory is gone before the connection has ended.
            PeerLoss::Gone => self.is_parted(number, side),
            _ => false,
        };
        ensure(so, || {
            format!("connection {number}, side {side} is told what is not so, {loss:?}: {record:?}")
        })
    }

    /// Returns how long it may take, after all faults have ended, until a side is told that the
    /// other is gone.
    fn patience(&self) -> u64 {
        let rounds = 300 * (self.around.hosts.len() as u64 + 1) * self.around.scenario.step_ms;
        3 * self.around.scenario.peer_timeout_ms + rounds
    }

    /// Checks that each side that has lost its peer is told in time.
    pub(super) fn check_connections(&mut self) -> Result<(), Violation> {
        let (now, patience) = (self.around.now, self.patience());
        let Connections { records, live, healed, .. } = &mut *self.connections;
        live.retain(|number| {
            let [asker, listener] = &records[*number].sides;
            !(asker.is_over() && (listener.is_over() || listener.pid.is_none()))
        });
        let Some(healed) = *healed else { return Ok(()) };
        for number in live.iter() {
            let [asker, listener] = &records[*number].sides;
            let since = match (&asker.gone, &listener.gone) {
                (Some((at, _)), _) | (_, Some((at, _))) => *at,
                // No process answers.
                _ if listener.pid.is_none() => healed,
                _ => continue,
            };
            ensure(now <= healed.max(since) + patience, || {
                format!("connection {number}: a side was not told: {:?}", records[*number])
            })?;
        }
        Ok(())
    }

    /// Checks that every connection is over and each side knows it, and that nothing of it remains.
    pub(super) fn check_at_rest(&mut self) -> Result<(), Violation> {
        self.check_connections()?;
        questions::check_at_rest(self.around.hosts)?;
        if let Some(number) = self.connections.live.first() {
            let record = &self.connections.records[*number];
            return Err(Violation::new(format!(
                "work has stopped, but connection {number} is not over: {record:?}"
            )));
        }
        for host in self.around.hosts.iter() {
            let well_known = host.machine.well_known();
            let Some(own) = well_known.as_ref() else { continue };
            ensure(own.is_at_rest(), || {
                format!("host {}: work has stopped, but its system still has {:?}", host.id, own.system())
            })?;
        }
        Ok(())
    }
}
