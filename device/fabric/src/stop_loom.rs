//! Stops under loom: a producer that sleeps while its destination is stopped is woken, even if
//! other events ring its bell. A lost wake-up is a deadlock, which loom reports.

use std::sync::Arc;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;

const FIRST: HostId = HostId(3);
const SECOND: HostId = HostId(5);

/// The shared words. The test's destinations all have their bits in the first word.
#[derive(Clone)]
struct Words {
    bits: Arc<AtomicU64>,
    resumptions: Arc<AtomicU64>,
}

impl Board for Words {
    fn load_bits(&self, _: usize, ordering: Ordering) -> u64 {
        self.bits.load(ordering)
    }

    fn store_bits(&self, _: usize, bits: u64, ordering: Ordering) {
        self.bits.store(bits, ordering);
    }

    fn load_resumptions(&self, ordering: Ordering) -> u64 {
        self.resumptions.load(ordering)
    }

    fn store_resumptions(&self, count: u64, ordering: Ordering) {
        self.resumptions.store(count, ordering);
    }
}

#[derive(Clone)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    fn ring(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }

    /// Waits for a ring and clears it.
    fn wait(&self) {
        let mut rings = self.0.0.lock().unwrap();
        while !*rings {
            rings = self.0.1.wait(rings).unwrap();
        }
        *rings = false;
    }
}

/// A switch that has stopped two destinations resumes both, and rings for another reason in
/// between. A card has a packet for each, and checks its parked packets again only when the count
/// has changed.
fn both_go_on(resume: fn(&mut Stops, &Words, HostId, &Bell)) {
    let words = Words { bits: Arc::new(AtomicU64::new(0)), resumptions: Arc::new(AtomicU64::new(0)) };
    let bell = Bell(Arc::new((Mutex::new(false), Condvar::new())));
    let mut stops = Stops::default();
    assert!(stops.stop(&words, FIRST) && stops.stop(&words, SECOND));
    let (shared, other) = (words.clone(), bell.clone());
    let switch = thread::spawn(move || {
        resume(&mut stops, &shared, FIRST, &other);
        other.ring();
        resume(&mut stops, &shared, SECOND, &other);
    });
    let (mut aside, mut seen) = (vec![FIRST, SECOND], None);
    loop {
        let count = resumptions(&words);
        if seen != Some(count) {
            seen = Some(count);
            aside.retain(|&destination| is_stopped(&words, destination));
        }
        if aside.is_empty() {
            break;
        }
        bell.wait();
    }
    switch.join().unwrap();
}

#[test]
fn sender_to_a_stopped_destination_is_woken() {
    loom::model(|| {
        both_go_on(|stops, words, destination, bell| {
            if stops.resume(words, destination) {
                bell.ring();
            }
        });
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn ringing_before_the_bit_is_cleared_deadlocks() {
    loom::model(|| {
        both_go_on(|stops, words, destination, bell| {
            bell.ring();
            stops.resume(words, destination);
        });
    });
}

/// The count does not bring the bit with it: the producer checks, sees the old bit, and never
/// checks again.
#[test]
#[should_panic(expected = "deadlock")]
fn counting_before_the_bit_is_cleared_deadlocks() {
    loom::model(|| {
        both_go_on(|stops, words, destination, bell| {
            words.store_resumptions(stops.resumptions + 1, Ordering::Release);
            stops.resume(words, destination);
            let _ = bell;
            bell.ring();
        });
    });
}
