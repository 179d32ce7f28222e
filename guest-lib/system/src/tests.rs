//! Two operating systems, and a fabric between them that is played by hand.

use hamlyn_abi::kernel::wire::{HAMLYN_WIRE_ACCEPT, HamlynWire};
use hamlyn_abi::uapi::*;
use rustix::io::Errno;

use super::peer::TICK;
use super::{Action, PLACES, System};

pub(super) const TIMEOUT: u64 = 8000;

/// Hosts 0 and 1.
pub(super) struct Two {
    pub(super) systems: [System; 2],
    /// What is on its way: from whom, and what.
    pub(super) flying: Vec<(usize, Action)>,
    now: u64,
}

impl Two {
    pub(super) fn new() -> Self {
        let systems = [1, 3].map(|seed| {
            let mut system = System::new(seed, TIMEOUT);
            system.start();
            system.link_is(true, 1);
            system
        });
        Self { systems, flying: Vec::new(), now: 0 }
    }

    pub(super) fn collect(&mut self) {
        for (from, system) in self.systems.iter_mut().enumerate() {
            let sent =
                system.take_actions().into_iter().filter(|action| matches!(action, Action::Send { .. }));
            self.flying.extend(sent.map(|action| (from, action)));
        }
    }

    /// Brings one message to its end, if there is somebody.
    pub(super) fn deliver(&mut self, (from, action): (usize, Action)) {
        let Action::Send { host, entry, wire, data } = action else { return };
        let Some(to) = self.systems.get_mut(host as usize) else { return };
        let mut place = data;
        place.resize(512, 0);
        to.arrived(from as u32, entry, wire, place);
        to.answer_peers();
    }

    /// Brings all messages to their ends, until there are none.
    pub(super) fn carry(&mut self) {
        self.collect();
        while !self.flying.is_empty() {
            let message = self.flying.remove(0);
            self.deliver(message);
            self.collect();
        }
    }

    /// Lets time pass, in which those messages arrive that `arrives` says.
    pub(super) fn pass(&mut self, milliseconds: u64, arrives: bool) {
        for _ in 0..milliseconds / 50 {
            self.now += 50;
            for system in &mut self.systems {
                system.time_is(self.now);
                system.tick();
            }
            if arrives {
                self.carry();
            } else {
                self.collect();
                self.flying.clear();
            }
        }
    }

    /// A connection from host 0 to host 1: its numbers there.
    fn connect(&mut self) -> [u32; 2] {
        let listener = self.systems[1].listen(b"name", 4).unwrap();
        let asked = self.systems[0].request(1, b"name", b"hello").unwrap();
        self.carry();
        let taken = self.systems[1].claim(listener).unwrap().unwrap();
        assert_eq!(self.systems[1].state(taken), Some((HAMLYN_CONNECTION_REQUESTED, 0, 0, &b"hello"[..])));
        self.systems[1].answer(taken, true, b"welcome").unwrap();
        self.systems[1].unlisten(listener);
        self.carry();
        assert_eq!(
            self.systems[0].state(asked),
            Some((HAMLYN_CONNECTION_ESTABLISHED, 0, 1, &b"welcome"[..]))
        );
        [asked, taken]
    }

    pub(super) fn reason(&self, host: usize, number: u32) -> u32 {
        self.systems[host].state(number).unwrap().1
    }

    /// Nobody remembers anything.
    pub(super) fn check_baseline(&self) {
        assert_eq!(self.systems.each_ref().map(System::table_sizes), [(0, 0, 0); 2]);
    }
}

#[test]
fn a_close_is_told_to_the_other_side_with_what_was_passed() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.systems[0].close(asked, HAMLYN_END_CLOSED, b"bye").unwrap();
    two.carry();
    assert_eq!(
        two.systems[1].state(taken),
        Some((HAMLYN_CONNECTION_ENDED, HAMLYN_END_CLOSED, 0, &b"bye"[..]))
    );
    assert_eq!(two.systems[1].close(taken, HAMLYN_END_CLOSED, b""), Err(Errno::NOTCONN));
    two.systems[0].release(asked);
    two.systems[1].release(taken);
    two.check_baseline();
}

#[test]
fn who_lets_go_without_a_word_has_died() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.systems[1].release(taken);
    two.carry();
    assert_eq!(two.reason(0, asked), HAMLYN_END_DIED);
    two.systems[0].release(asked);
    two.check_baseline();
}

#[test]
fn who_listens_is_told_of_a_request_and_nobody_else() {
    let mut two = Two::new();
    two.connect();
    let [_, wanted] = [&b"other"[..], b"name"].map(|name| two.systems[1].listen(name, 1).unwrap());
    two.systems[0].request(1, b"name", b"").unwrap();
    two.systems[0].request(1, b"nobody", b"").unwrap();
    two.collect();
    while !two.flying.is_empty() {
        let message = two.flying.remove(0);
        two.deliver(message);
    }
    let told = two.systems[1].take_actions();
    let told = told.iter().filter(|action| matches!(action, Action::Requests { .. }));
    assert_eq!(told.collect::<Vec<_>>(), [&Action::Requests { listener: wanted }]);
}

#[test]
fn a_message_in_the_place_of_another_is_not_taken() {
    let mut two = Two::new();
    two.connect();
    let listener = two.systems[1].listen(b"name", 2).unwrap();
    for said in [b"first", b"later"] {
        two.systems[0].request(1, b"name", said).unwrap();
    }
    two.collect();
    let mut places = Vec::new();
    for (_, action) in &two.flying {
        let Action::Send { entry, .. } = action else { continue };
        places.push(*entry);
    }
    assert_eq!(places.len(), 2);
    for (_, action) in &mut two.flying {
        let Action::Send { entry, .. } = action else { continue };
        *entry = places.pop().unwrap();
    }
    two.carry();
    assert_eq!(two.systems[1].waiting(listener), Some(0));
    // They are sent again, and are right then.
    two.pass(2 * TICK, true);
    for said in [b"first", b"later"] {
        let number = two.systems[1].claim(listener).unwrap().unwrap();
        assert_eq!(two.systems[1].state(number).unwrap().3, said);
    }
}

#[test]
fn requests_are_refused_for_a_reason() {
    let mut two = Two::new();
    let unknown = two.systems[0].request(1, b"nobody", b"").unwrap();
    let listener = two.systems[1].listen(b"name", 1).unwrap();
    assert_eq!(two.systems[1].listen(b"name", 1), Err(Errno::ADDRINUSE));
    let first = two.systems[0].request(1, b"name", b"").unwrap();
    let second = two.systems[0].request(1, b"name", b"").unwrap();
    two.carry();
    assert_eq!(two.reason(0, unknown), HAMLYN_END_NO_NAME);
    assert_eq!(two.reason(0, second), HAMLYN_END_BACKLOG);
    let taken = two.systems[1].claim(listener).unwrap().unwrap();
    two.systems[1].answer(taken, false, b"no").unwrap();
    two.carry();
    assert_eq!(
        two.systems[0].state(first),
        Some((HAMLYN_CONNECTION_ENDED, HAMLYN_END_REJECTED, 1, &b"no"[..]))
    );
    let third = two.systems[0].request(1, b"name", b"").unwrap();
    two.carry();
    two.systems[1].unlisten(listener);
    two.carry();
    assert_eq!(two.reason(0, third), HAMLYN_END_NO_NAME);
    [unknown, first, second, third].into_iter().for_each(|number| two.systems[0].release(number));
    two.systems[1].release(taken);
    two.check_baseline();
}

#[test]
fn a_request_that_was_given_up_is_taken_from_the_listener() {
    let mut two = Two::new();
    let listener = two.systems[1].listen(b"name", 1).unwrap();
    let asked = two.systems[0].request(1, b"name", b"").unwrap();
    two.carry();
    two.systems[0].release(asked);
    two.carry();
    assert_eq!(two.systems[1].claim(listener), Ok(None));
    two.systems[1].unlisten(listener);
    two.check_baseline();
}

#[test]
fn what_is_lost_is_sent_again() {
    let mut two = Two::new();
    let asked = two.systems[0].request(1, b"nobody", b"").unwrap();
    two.pass(1000, false);
    two.pass(1000, true);
    assert_eq!(two.reason(0, asked), HAMLYN_END_NO_NAME);
    two.systems[0].release(asked);
    two.check_baseline();
}

#[test]
fn a_host_that_is_silent_is_given_up_and_learns_of_it() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    // With signs of life it goes on for ever.
    two.pass(3 * TIMEOUT, true);
    assert_eq!([two.reason(0, asked), two.reason(1, taken)], [0; 2]);
    two.pass(TIMEOUT - 250, false);
    assert_eq!(two.reason(0, asked), 0);
    two.pass(1500, false);
    assert_eq!([two.reason(0, asked), two.reason(1, taken)], [HAMLYN_END_HOST_LOST; 2]);
    two.systems[0].release(asked);
    two.systems[1].release(taken);
    two.check_baseline();
    assert_eq!(two.systems[0].due(), None, "nobody is left to be watched");
}

#[test]
fn a_host_that_has_started_anew_is_told_from_what_it_was() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.systems[1].stop();
    assert_eq!(two.reason(1, taken), HAMLYN_END_CARD_RESET);
    two.systems[1].start();
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, asked), HAMLYN_END_HOST_RESET);
}

#[test]
fn a_link_that_went_and_came_between_two_looks_has_been_down() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.systems[0].link_is(true, 1);
    assert_eq!(two.reason(0, asked), 0);
    two.systems[0].link_is(true, 3);
    assert_eq!(two.reason(0, asked), HAMLYN_END_LINK_LOST);
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(1, taken), HAMLYN_END_HOST_RESET);
}

#[test]
fn a_link_that_came_and_went_unseen_was_there_for_what_it_brought() {
    let mut two = Two::new();
    two.systems[1].link_is(false, 2);
    // It has come up, and nobody has looked: what it brings is taken all the same.
    let [asked, taken] = two.connect();
    // It went and came once more before anybody looks.
    two.systems[1].link_is(true, 5);
    assert_eq!(two.reason(1, taken), HAMLYN_END_LINK_LOST);
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, asked), HAMLYN_END_HOST_RESET);
    // One that has only come up has lost nothing.
    two.systems[1].link_is(false, 6);
    let [_, taken] = two.connect();
    two.systems[1].link_is(true, 7);
    assert_eq!(two.reason(1, taken), 0);
}

#[test]
fn what_an_earlier_incarnation_sent_is_stale_even_when_overtaken() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    // A probe of host 1 is slow on its way.
    two.systems[1].time_is(TIMEOUT / 8);
    two.systems[1].tick();
    two.collect();
    let slow = two.flying.pop().unwrap();
    two.flying.clear();
    two.systems[1].connections_lost(HAMLYN_END_LAPSED);
    two.systems[1].release(taken);
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, asked), HAMLYN_END_HOST_RESET);
    two.systems[0].release(asked);
    let [again, _] = two.connect();
    two.deliver(slow);
    two.carry();
    assert_eq!(two.reason(0, again), 0, "the new connection does not end for it");
}

#[test]
fn a_message_to_whoever_is_there_is_not_taken_by_a_later_incarnation() {
    let mut two = Two::new();
    // Host 0 knows nothing of host 1 yet; its request is sent twice, and one is slow.
    let asked = two.systems[0].request(1, b"nobody", b"").unwrap();
    two.collect();
    let slow = two.flying[0].clone();
    two.carry();
    assert_eq!(two.reason(0, asked), HAMLYN_END_NO_NAME);
    two.systems[1].connections_lost(HAMLYN_END_LAPSED);
    two.deliver(slow);
    two.carry();
    // Had it been taken, host 1 would take the next of that number for one that it has had.
    let next = two.systems[0].request(1, b"nobody", b"").unwrap();
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, next), HAMLYN_END_NO_NAME);
}

#[test]
fn what_makes_no_sense_is_not_heeded() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.systems[1].close(taken, HAMLYN_END_CLOSED, b"").unwrap();
    two.collect();
    let (_, Action::Send { entry, wire, data, .. }) = two.flying.pop().unwrap() else { panic!("no close") };
    let wrong = [
        HamlynWire { from: wire.from + 1, ..wire },
        HamlynWire { to: wire.to + 1, ..wire },
        HamlynWire { kind: HAMLYN_WIRE_ACCEPT, ..wire },
        HamlynWire { kind: 99, ..wire },
        HamlynWire { private_length: 257, ..wire },
        HamlynWire { name_length: u32::MAX, ..wire },
        HamlynWire { incarnation: 0, ..wire },
    ];
    for (number, wrong) in (0..).zip(wrong) {
        // Each is the next in its turn.
        let sequence = wire.sequence + number;
        two.systems[0].arrived(1, sequence % PLACES, HamlynWire { sequence, ..wrong }, vec![0; 512]);
        assert_eq!(two.reason(0, asked), 0, "{wrong:?}");
    }
    // In another's place, or too far ahead.
    for (sequence, entry) in [(wire.sequence + 6, entry), (wire.sequence + 11, (entry + 3) % PLACES)] {
        two.systems[0].arrived(1, entry, HamlynWire { sequence, ..wire }, vec![0; 512]);
        assert_eq!(two.reason(0, asked), 0);
    }
    let sequence = wire.sequence + 6;
    two.systems[0].arrived(1, sequence % PLACES, HamlynWire { sequence, ..wire }, data);
    assert_eq!(two.reason(0, asked), HAMLYN_END_CLOSED);
}

#[test]
fn a_late_word_of_a_system_that_was_started_again_is_told_to_both() {
    let mut two = Two::new();
    let [asked, _] = two.connect();
    two.systems[0].close(asked, HAMLYN_END_CLOSED, b"").unwrap();
    two.collect();
    let late = two.flying.remove(0);
    two.flying.clear();
    two.systems[0] = System::new(7, TIMEOUT);
    two.systems[0].start();
    two.systems[0].link_is(true, 1);
    let [asked, taken] = two.connect();
    two.deliver(late);
    two.carry();
    assert_eq!([two.reason(0, asked), two.reason(1, taken)], [HAMLYN_END_HOST_RESET; 2]);
    let [asked, taken] = two.connect();
    assert_eq!([two.reason(0, asked), two.reason(1, taken)], [0; 2]);
}

/// A request of host 0 that host 1 took, and neither an acknowledgement nor an answer of it came back; its number there.
fn taken_unheard(two: &mut Two, listener: u32, asked: &[u8]) -> u32 {
    two.systems[0].request(1, b"name", asked).unwrap();
    two.collect();
    let request = two.flying.remove(0);
    two.deliver(request);
    two.collect();
    two.flying.clear();
    two.systems[1].claim(listener).unwrap().unwrap()
}

#[test]
fn a_request_that_was_taken_is_not_taken_again_by_a_later_incarnation() {
    let mut two = Two::new();
    // They know each other.
    two.connect();
    let listener = two.systems[1].listen(b"name", 4).unwrap();
    for reason in [HAMLYN_END_LAPSED, HAMLYN_END_LINK_LOST] {
        let taken = taken_unheard(&mut two, listener, b"once");
        let asked = *two.systems[0].connections_with(1).last().unwrap();
        two.systems[1].answer(taken, true, b"").unwrap();
        two.systems[1].connections_lost(reason);
        two.systems[1].take_actions();
        assert_eq!(two.reason(1, taken), reason);
        // Host 0 learns that host 1 has forgotten, and does not know that its request was there.
        two.pass(TIMEOUT / 4, true);
        assert_eq!(two.systems[1].claim(listener), Ok(None), "it was handed to the listener before");
        assert_eq!(two.reason(0, asked), HAMLYN_END_HOST_RESET);
        // The next is another.
        let next = two.systems[0].request(1, b"name", b"").unwrap();
        two.carry();
        let taken = two.systems[1].claim(listener).unwrap().unwrap();
        two.systems[1].answer(taken, true, b"").unwrap();
        two.carry();
        assert_eq!(two.systems[0].state(next).unwrap().0, HAMLYN_CONNECTION_ESTABLISHED);
    }
}

#[test]
fn a_request_that_was_not_taken_is_put_to_the_later_incarnation() {
    let mut two = Two::new();
    two.connect();
    let listener = two.systems[1].listen(b"name", 4).unwrap();
    two.systems[0].request(1, b"name", b"again").unwrap();
    two.collect();
    two.flying.clear();
    two.systems[1].connections_lost(HAMLYN_END_LAPSED);
    two.pass(TIMEOUT / 4, true);
    let taken = two.systems[1].claim(listener).unwrap().unwrap();
    assert_eq!(two.systems[1].state(taken).unwrap().3, b"again");
}

#[test]
fn a_system_that_was_started_again_counts_its_requests_anew() {
    let mut two = Two::new();
    let listener = two.systems[1].listen(b"name", 4).unwrap();
    for origin in [9, 11, 13] {
        two.systems[0].request(1, b"name", b"").unwrap();
        two.carry();
        assert!(two.systems[1].claim(listener).unwrap().is_some());
        two.systems[0] = System::new(origin, TIMEOUT);
        two.systems[0].time_is(two.now);
        two.systems[0].start();
        two.systems[0].link_is(true, 1);
    }
}

#[test]
fn a_side_that_leaves_tells_its_peers_and_holds_no_names() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    let listener = two.systems[1].listen(b"name", 4).unwrap();
    let waits = two.systems[0].request(1, b"name", b"").unwrap();
    two.carry();
    assert_eq!(two.systems[1].waiting(listener), Some(1));
    two.systems[1].leave();
    assert_eq!(two.systems[1].table_sizes().2, 2, "both have still to hear of it");
    two.carry();
    assert_eq!(two.reason(0, asked), HAMLYN_END_DIED);
    assert_eq!(two.reason(0, waits), HAMLYN_END_NO_NAME);
    assert_eq!(two.reason(1, taken), HAMLYN_END_CARD_RESET);
    assert_eq!((two.systems[1].waiting(listener), two.systems[1].table_sizes().2), (None, 0));
}

#[test]
fn who_sleeps_is_told_when_there_is_something_to_see() {
    let mut two = Two::new();
    let listener = two.systems[1].listen(b"name", 4).unwrap();
    let asked = two.systems[0].request(1, b"name", b"").unwrap();
    let mut told = Vec::new();
    for _ in 0..8 {
        let mut collected: Vec<(usize, Action)> = Vec::new();
        for (from, system) in two.systems.iter_mut().enumerate() {
            collected.extend(system.take_actions().into_iter().map(|action| (from, action)));
        }
        for (from, action) in collected {
            match action {
                Action::Send { .. } => two.deliver((from, action)),
                Action::Reopen { .. } => {}
                news => told.push((from, news)),
            }
        }
        if let Ok(Some(taken)) = two.systems[1].claim(listener) {
            two.systems[1].answer(taken, false, b"").unwrap();
        }
    }
    let [first, .., last] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*first, (1, Action::Requests { listener }));
    assert_eq!(*last, (0, Action::Decided { connection: asked }));
}
