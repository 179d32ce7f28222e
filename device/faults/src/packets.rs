//! Packets that have arrived and are not delivered yet.

use std::collections::VecDeque;
use std::time::Duration;

/// Number of waiting packets from which on the card takes no more from its link.
const MOST: usize = 256;
/// Time after which a packet is delivered that was to come after the next one.
const LONGEST_HOLD: Duration = Duration::from_millis(20);

/// A packet that waits to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    due: Duration,
    /// The sending host.
    pub source: u16,
    /// The card's header and payload.
    pub bytes: Vec<u8>,
}

/// How a packet is delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) by: Duration,
    /// Bytes in a second, together with those before it.
    pub(crate) rate: Option<u64>,
    pub(crate) after_next: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Packets {
    queue: VecDeque<Waiting>,
    held: Option<Waiting>,
    /// When the last packet has passed a link with a rate.
    passed: Duration,
}

impl Packets {
    /// Adds a packet behind those that wait.
    pub(crate) fn add(&mut self, source: u16, bytes: Vec<u8>, delivery: Delivery, now: Duration) {
        let mut due = now + delivery.by;
        if let Some(rate) = delivery.rate {
            let nanos = (bytes.len() as u64).saturating_mul(1_000_000_000) / rate;
            self.passed = self.passed.max(now).saturating_add(Duration::from_nanos(nanos));
            due = self.passed + delivery.by;
        }
        if delivery.after_next && self.held.is_none() {
            self.held = Some(Waiting { due: now + LONGEST_HOLD, source, bytes });
            return;
        }
        let due = self.queue.back().map_or(due, |last| due.max(last.due));
        self.queue.push_back(Waiting { due, source, bytes });
        if let Some(held) = self.held.take() {
            self.queue.push_back(Waiting { due, ..held });
        }
    }

    /// Takes the next packet that is due.
    pub(crate) fn next(&mut self, now: Duration) -> Option<Waiting> {
        if self.held.as_ref().is_some_and(|held| held.due <= now) {
            self.queue.extend(self.held.take());
        }
        self.queue.front().filter(|first| first.due <= now)?;
        self.queue.pop_front()
    }

    /// Returns when a packet is due.
    pub(crate) fn due(&self) -> Option<Duration> {
        [self.queue.front(), self.held.as_ref()].into_iter().flatten().map(|packet| packet.due).min()
    }

    /// Makes all due.
    pub(crate) fn release(&mut self) {
        self.queue.extend(self.held.take());
        self.queue.iter_mut().for_each(|packet| packet.due = Duration::ZERO);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.held.is_none()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    fn add(packets: &mut Packets, number: u8, delivery: Delivery, now: u64) {
        packets.add(1, vec![number; 100], delivery, ms(now));
    }

    fn taken(packets: &mut Packets, now: u64) -> Vec<u8> {
        std::iter::from_fn(|| packets.next(ms(now))).map(|packet| packet.bytes[0]).collect()
    }

    #[test]
    fn delayed_packets_keep_their_order() {
        let mut packets = Packets::default();
        add(&mut packets, 1, Delivery { by: ms(10), ..Delivery::default() }, 0);
        add(&mut packets, 2, Delivery::default(), 1);
        assert_eq!((packets.due(), taken(&mut packets, 9)), (Some(ms(10)), vec![]));
        assert_eq!(taken(&mut packets, 10), [1, 2]);
    }

    #[test]
    fn rate_adds_up() {
        let mut packets = Packets::default();
        // 100 bytes take 100 ms.
        let delivery = Delivery { rate: Some(1000), by: ms(5), ..Delivery::default() };
        (1..=3).for_each(|number| add(&mut packets, number, delivery, 0));
        assert_eq!(
            [104, 105, 304, 305].map(|now| taken(&mut packets, now)),
            [vec![], vec![1], vec![2], vec![3]]
        );
    }

    #[test]
    fn held_packet_comes_after_the_next() {
        let mut packets = Packets::default();
        let delivery = Delivery { after_next: true, ..Delivery::default() };
        add(&mut packets, 1, delivery, 0);
        assert!(taken(&mut packets, 19).is_empty());
        add(&mut packets, 2, Delivery::default(), 19);
        assert_eq!(taken(&mut packets, 19), [2, 1]);
        add(&mut packets, 3, delivery, 30);
        assert_eq!((packets.due(), taken(&mut packets, 50)), (Some(ms(50)), vec![3]));
        assert!(packets.is_empty());
    }
}
