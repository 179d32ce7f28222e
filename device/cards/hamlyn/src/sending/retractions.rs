//! Retractions: packets for messages that the card began and cannot finish (section 2.5).
//!
//! The message's terminus was closed or reset, or its memory is gone. The receiver's packet
//! accumulator holds a count for each packet that was sent. If it kept those counts, no later
//! message of several packets would ever complete at that entry. So the card sends one more packet,
//! without data, that takes the counts back.
//!
//! There are never more retractions for a host than termini. Each belongs to a message that was
//! half sent, and a terminus has one such message at a time. While retractions wait, the termini
//! send nothing to that host.

use std::collections::VecDeque;

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::card::Progress;
use hamlyn_card::ports::{Link, VolatileSlice};
use zerocopy::IntoBytes;

use super::parked::Parked;
use crate::packet::Retraction;
use crate::statistics::Counters;

/// The retractions that may be sent now. Those for a stopped host are [parked](super::parked).
#[derive(Debug, Default)]
pub(super) struct Retractions(VecDeque<Retraction>);

impl Retractions {
    pub(super) fn add(&mut self, retractions: impl IntoIterator<Item = Retraction>) {
        self.0.extend(retractions);
    }

    pub(super) fn are_due(&self) -> bool {
        !self.0.is_empty()
    }

    /// Sends a retraction, if one is due.
    pub(super) fn send(
        &mut self,
        link: &mut dyn Link,
        parked: &mut Parked,
        counters: &mut Counters,
    ) -> Option<Progress> {
        while let Some(Retraction { destination, mut header }) = self.0.pop_front() {
            let retraction = Retraction { destination, header };
            if link.is_stopped(destination) {
                counters.add(Statistic::LinkStalls, 1);
                parked.put_retraction(retraction);
                continue;
            }
            if !link.send(destination, &[VolatileSlice::from(header.as_mut_bytes())]) {
                counters.add(Statistic::LinkStalls, 1);
                self.0.push_front(retraction);
                return Some(Progress::LinkFull);
            }
            counters.add(Statistic::PacketsSent, 1);
            return Some(Progress::Worked);
        }
        None
    }
}
