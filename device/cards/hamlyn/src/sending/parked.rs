//! Parked senders: they wait for a host that takes nothing (section 2.8: back-pressure), while the
//! others proceed.
//!
//! If the switch accepts no more packets for a host, the termini whose messages go to that host are
//! parked. So are the pending answers to it. Parked senders have no turns until the switch accepts
//! packets for the host again, so a card with nothing else to do sleeps. When the switch accepts
//! them again, it rings the link's bell. The process that hosts the card then lets the card
//! transmit. No handshake is needed, because that process silences the bell before the card looks
//! here.
//!
//! The operating system's own messages are not parked. They are few and small, and one terminus
//! sends them to all hosts. If one host could block that terminus, the other hosts would take this
//! host for dead. The crossbar's queues have room for these messages beyond what a stop lets
//! through. A mesh has no stops, and its links block all messages alike.

use std::collections::BTreeMap;

use hamlyn_card::ports::Link;

use crate::packet::Retraction;

/// The parked termini, answers and retractions, by destination host.
#[derive(Debug, Default)]
pub(super) struct Parked {
    hosts: BTreeMap<u16, Waiting>,
    /// The link's count of resumptions at the last look.
    seen: Option<u64>,
}

/// The parked senders of a host.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) termini: Vec<u32>,
    pub(super) answers: bool,
    pub(super) retractions: Vec<Retraction>,
}

impl Parked {
    pub(super) fn put_terminus(&mut self, host: u16, terminus: u32) {
        self.hosts.entry(host).or_default().termini.push(terminus);
    }

    pub(super) fn put_answers(&mut self, host: u16) {
        self.hosts.entry(host).or_default().answers = true;
    }

    pub(super) fn put_retraction(&mut self, retraction: Retraction) {
        self.hosts.entry(retraction.destination).or_default().retractions.push(retraction);
    }

    /// Takes all retractions, because they outlive a reset.
    pub(super) fn take_retractions(&mut self) -> impl Iterator<Item = Retraction> {
        std::mem::take(&mut self.hosts).into_values().flat_map(|waiting| waiting.retractions)
    }

    pub(super) fn has_terminus(&self, terminus: u32) -> bool {
        self.hosts.values().any(|waiting| waiting.termini.contains(&terminus))
    }

    /// Removes a terminus that is being closed.
    pub(super) fn forget(&mut self, terminus: u32) {
        for waiting in self.hosts.values_mut() {
            waiting.termini.retain(|other| *other != terminus);
        }
        self.hosts.retain(|_, waiting| {
            waiting.answers || !waiting.termini.is_empty() || !waiting.retractions.is_empty()
        });
    }

    /// Takes the senders whose hosts are no longer stopped, each with its host.
    #[inline]
    pub(super) fn take_resumed(&mut self, link: &dyn Link) -> Vec<(u16, Waiting)> {
        if self.hosts.is_empty() { Vec::new() } else { self.resume(link) }
    }

    #[cold]
    fn resume(&mut self, link: &dyn Link) -> Vec<(u16, Waiting)> {
        // The count is read before any host is checked, so the next look sees all later changes.
        let count = link.resumptions();
        if self.seen == Some(count) {
            return Vec::new();
        }
        self.seen = Some(count);
        let mut resumed = Vec::new();
        self.hosts.retain(|&host, waiting| {
            let is_stopped = link.is_stopped(host);
            if !is_stopped {
                resumed.push((host, std::mem::take(waiting)));
            }
            is_stopped
        });
        resumed
    }

    /// Takes all senders after the link has changed or gone. The stops of the earlier link's switch
    /// no longer hold.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (u16, Waiting)> + use<> {
        std::mem::take(self).hosts.into_iter()
    }
}
