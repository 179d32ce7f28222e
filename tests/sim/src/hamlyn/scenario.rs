//! The parameters of a simulation. A seed chooses them; a test may write its own.

use crate::engine::rng::Rng;
use crate::engine::world::Course;

/// A fabric, its traffic and its faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// Data bytes in a packet of each card. The length is the number of cards, 2 to 16.
    pub packet_sizes: Vec<u32>,
    /// Honest processes on each host, 1 or 2.
    pub processes: u32,
    /// Whether each host has a process with streams to those of other hosts.
    pub streams: bool,
    /// Whether those processes listen and connect to each other by name.
    pub connections: bool,
    /// Whether those may open channels by express memory.
    pub express: bool,
    /// Milliseconds without a sign of life after which an operating system gives up a host.
    pub peer_timeout_ms: u64,
    /// Whether some hosts have a process and a hostile packet source that forge all they can.
    pub forgers: bool,
    /// Number of random steps. After them, no more messages are made, no more faults happen, and
    /// the fabric must come to rest.
    pub steps: u64,
    /// Messages made per thousand steps.
    pub traffic: u64,
    /// Percentage of messages that are floods: more from one sender than its work queue takes.
    pub floods: u64,
    /// Fetch-and-ops per thousand steps.
    pub fetches: u64,
    /// Faults per thousand steps.
    pub faults: u64,
    /// Percentage of steps that are the switch's turn. The lower, the fuller the rings.
    pub switch_share: u64,
    /// Percentage of packets that go directly from card to card, where that is allowed.
    pub by_hand: u64,
    /// Whether packets are reordered between switch and card.
    pub reorder: bool,
    /// Number of paths through the switch to each host. Packets on different paths overtake each
    /// other.
    pub paths: u16,
    /// Whether one card takes nothing for a while at the end, which must not affect the others.
    pub stands_still: bool,
    /// Whether programs sleep until their requests are finished.
    pub senders_sleep: bool,
    /// Milliseconds per step.
    pub step_ms: u64,
    /// The period of the cards' handshake timers, in steps; 0: they have none.
    pub handshake_steps: u32,
}

impl Scenario {
    /// Returns the scenario of a seed, with this number of cards if one is given.
    pub(super) fn choose(rng: &mut Rng, cards: Option<u16>) -> Self {
        let seldom_many = [2, 2, 2, 3, 3, 4, 5, 6, 8];
        let any = rng.pick(&seldom_many).unwrap_or(2);
        let cards = cards.unwrap_or(any);
        // A message between operating systems fits into one packet.
        let connections = rng.percent(25);
        let sizes = if connections { [320, 320, 328, 512, 1024] } else { [256, 256, 264, 512, 1024] };
        // Operating systems count time in quarters of a second. Even a slow machine should make
        // progress in one of them.
        let step_ms = rng.pick(if connections { &[2, 10] } else { &[10, 50] }).unwrap_or(10);
        let handshake_ms = if rng.percent(70) { rng.range(10, 60) * 10 } else { 0 };
        let mut scenario = Self {
            packet_sizes: (0..cards).map(|_| rng.pick(&sizes).unwrap_or(1024)).collect(),
            processes: rng.range(1, 2),
            streams: rng.percent(40),
            connections,
            express: false,
            peer_timeout_ms: rng.pick(&[1000, 2000, 8000]).unwrap_or(8000),
            forgers: rng.percent(60),
            steps: u64::from(rng.range(150, 900)) * if connections { 2 } else { 1 },
            traffic: rng.range(20, 150).into(),
            floods: 1,
            fetches: rng.range(2, 30).into(),
            faults: if rng.percent(75) { rng.range(5, 100).into() } else { 0 },
            switch_share: rng.pick(&[2, 5, 20]).unwrap_or(20),
            by_hand: rng.pick(&[0, 50, 100]).unwrap_or(0),
            reorder: rng.percent(60),
            paths: rng.pick(&[1, 1, 2, 5]).unwrap_or(1),
            stands_still: false,
            senders_sleep: false,
            step_ms,
            handshake_steps: handshake_ms / step_ms.min(10) as u32,
        };
        // Forgers ignore stops, and so do operating systems.
        // These settings do not use the generator, so that known seeds keep their meaning.
        if connections && scenario.traffic % 3 == 1 {
            scenario.talk();
        }
        scenario.senders_sleep = scenario.traffic % 3 == 0;
        scenario.stands_still = !scenario.forgers && !scenario.connections && !scenario.streams;
        scenario
    }

    /// Makes its programs use channels only, and gives them time for that.
    fn talk(&mut self) {
        self.express = true;
        (self.processes, self.streams, self.traffic, self.fetches) = (0, false, 0, 0);
        self.handshake_steps *= self.step_ms as u32;
        (self.step_ms, self.switch_share, self.faults) = (1, 20, self.faults / 4);
        self.steps *= 4;
    }

    /// Returns the engine's part of the scenario.
    pub(super) fn course(&self) -> Course {
        let leap_ms = u64::from(self.handshake_steps) * self.step_ms / 2;
        Course {
            cards: self.packet_sizes.len() as u16,
            steps: self.steps,
            faults: self.faults,
            switch_share: self.switch_share,
            by_hand: self.by_hand,
            reorder: self.reorder,
            paths: self.paths,
            mesh: None,
            step_ms: self.step_ms,
            // No handshake timer may expire during a leap.
            leap_ms: if leap_ms == 0 { u64::MAX } else { leap_ms },
        }
    }

    /// Returns a scenario in which every host sends to every host as fast as it can, without
    /// faults.
    pub fn saturation(cards: u16) -> Self {
        Self {
            packet_sizes: vec![256; cards.into()],
            processes: 2,
            streams: false,
            connections: false,
            express: false,
            peer_timeout_ms: 8000,
            forgers: false,
            steps: 20_000,
            traffic: 1000,
            floods: 10,
            fetches: 10,
            faults: 0,
            switch_share: 1,
            by_hand: 0,
            reorder: false,
            paths: 1,
            stands_still: false,
            senders_sleep: false,
            step_ms: 10,
            handshake_steps: 50,
        }
    }
}
