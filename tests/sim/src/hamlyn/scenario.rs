//! What a simulation is to be like. A seed chooses one; a test may write its own.

use crate::engine::rng::Rng;
use crate::engine::world::Course;

/// A fabric, its traffic and its misfortunes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// Cards, 2 to 16; the data bytes in a packet of each.
    pub packet_sizes: Vec<u32>,
    /// Honest processes on each host, 1 or 2.
    pub processes: u32,
    /// Whether each host has a process with streams to the others'.
    pub streams: bool,
    /// Whether those processes listen and connect to each other by name.
    pub connections: bool,
    /// Whether those may open channels by express memory.
    pub express: bool,
    /// Milliseconds without a sign of life after which an operating system gives a host up.
    pub peer_timeout_ms: u64,
    /// Whether some hosts have a process, and a hostile packet source, that forges all it can.
    pub forgers: bool,
    /// Steps until no more messages are made, no more faults happen, and all is to come to rest.
    pub steps: u64,
    /// Messages made in a thousand steps.
    pub traffic: u64,
    /// How many of a hundred messages are floods: more from one sender than its work queue takes.
    pub floods: u64,
    /// Fetch-and-ops in a thousand steps.
    pub fetches: u64,
    /// Faults in a thousand steps.
    pub faults: u64,
    /// How often the switch has its turn, in a hundred steps: the fewer, the fuller the rings.
    pub switch_share: u64,
    /// How many of a hundred packets go from card to card by hand, as far as they may.
    pub by_hand: u64,
    /// Whether packets change places between switch and card.
    pub reorder: bool,
    /// Paths through the switch to each host, on which packets overtake each other.
    pub paths: u16,
    /// Whether a card takes nothing for a while in the end, and the others must not mind.
    pub stands_still: bool,
    /// Whether programs sleep until their requests are finished.
    pub senders_sleep: bool,
    /// Milliseconds that pass in a step.
    pub step_ms: u64,
    /// The period of the cards' handshake timers, in steps; 0: they have none.
    pub handshake_steps: u32,
}

impl Scenario {
    /// The scenario of a seed, with this number of cards if one is given.
    pub(crate) fn choose(rng: &mut Rng, cards: Option<u16>) -> Self {
        let seldom_many = [2, 2, 2, 3, 3, 4, 5, 6, 8];
        let any = rng.pick(&seldom_many).unwrap_or(2);
        let cards = cards.unwrap_or(any);
        // A message between operating systems fits into one packet.
        let connections = rng.percent(25);
        let sizes = if connections { [320, 320, 328, 512, 1024] } else { [256, 256, 264, 512, 1024] };
        // Operating systems count in quarters of a second, in which a slow machine should come to
        // something.
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
        // Who forges does not mind stops, and nor do operating systems.
        // These take no decision from the generator, so that known seeds keep their meaning.
        if connections && scenario.traffic % 3 == 1 {
            scenario.talk();
        }
        scenario.senders_sleep = scenario.traffic % 3 == 0;
        scenario.stands_still = !scenario.forgers && !scenario.connections && !scenario.streams;
        scenario
    }

    /// Its programs have no other business than channels, with time for it.
    fn talk(&mut self) {
        self.express = true;
        (self.processes, self.streams, self.traffic, self.fetches) = (0, false, 0, 0);
        self.handshake_steps *= self.step_ms as u32;
        (self.step_ms, self.switch_share, self.faults) = (1, 20, self.faults / 4);
        self.steps *= 4;
    }

    /// What of it is the engine's.
    pub(crate) fn course(&self) -> Course {
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
            // No handshake timer may run out meanwhile.
            leap_ms: if leap_ms == 0 { u64::MAX } else { leap_ms },
        }
    }

    /// Every host sends to every host as fast as it can, and nothing goes wrong.
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
