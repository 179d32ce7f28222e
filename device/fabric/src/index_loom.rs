//! The index protocol under loom, which tries the interleavings of two threads and the reorderings
//! that the memory model allows. A lost wake-up is a deadlock, which loom reports. A record seen
//! before its data is a wrong value.
//!
//! Loom never lets a load see a later store, so it does not check the release of a record's space.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;

/// Bytes of every record in these tests.
const RECORD: u64 = 16;
/// Bytes of a ring in these tests: two records.
const CAPACITY: u64 = 2 * RECORD;

/// One ring's shared words and data.
struct Memory<const FENCED: bool> {
    words: [AtomicU64; 4],
    /// Accessed with relaxed ordering: only the indices order the accesses.
    data: [AtomicU64; 2],
}

#[derive(Clone)]
struct Shared<const FENCED: bool>(Arc<Memory<FENCED>>);

impl<const FENCED: bool> Shared<FENCED> {
    fn new() -> Self {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Shared(Arc::new(Memory { words, data: std::array::from_fn(|_| AtomicU64::new(0)) }))
    }

    fn data(&self, position: u64) -> &AtomicU64 {
        &self.0.data[(position % CAPACITY / RECORD) as usize]
    }
}

impl<const FENCED: bool> Words for Shared<FENCED> {
    fn load(&self, name: Name, ordering: Ordering) -> u64 {
        self.0.words[name as usize].load(ordering)
    }

    fn store(&self, name: Name, value: u64, ordering: Ordering) {
        self.0.words[name as usize].store(value, ordering);
    }

    fn fence_between_store_and_look(&self) {
        if FENCED {
            fence(Ordering::SeqCst);
        }
    }
}

/// Stands for an eventfd.
#[derive(Clone)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    fn new() -> Self {
        Bell(Arc::new((Mutex::new(false), Condvar::new())))
    }

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

/// Puts `value` into the ring if there is room.
fn offer<const F: bool>(producer: &mut ProducerIndex<Shared<F>>, value: u64, peer: &Bell) -> bool {
    let room = producer.has_room(RECORD).unwrap();
    if room {
        producer.words.data(producer.position()).store(value, Ordering::Relaxed);
        if producer.publish(RECORD) {
            peer.ring();
        }
    }
    room
}

/// Takes a value from the ring if there is one.
fn poll<const F: bool>(consumer: &mut ConsumerIndex<Shared<F>>, peer: &Bell) -> Option<u64> {
    if consumer.available().unwrap() == 0 {
        return None;
    }
    let value = consumer.words.data(consumer.position()).load(Ordering::Relaxed);
    if consumer.release(RECORD) {
        peer.ring();
    }
    Some(value)
}

/// One direction: sends more records than the ring holds. Both sides sleep whenever they can.
fn one_way<const F: bool>(records: u64) {
    let shared = Shared::<F>::new();
    let (producer_bell, consumer_bell) = (Bell::new(), Bell::new());
    let mut producer = ProducerIndex::new(shared.clone(), CAPACITY);
    let mut consumer = ConsumerIndex::new(shared, CAPACITY, 0);
    let (mine, peer) = (producer_bell.clone(), consumer_bell.clone());
    let thread = thread::spawn(move || {
        for value in 1..=records {
            while !offer(&mut producer, value, &peer) {
                if producer.sleep().unwrap() {
                    mine.wait();
                }
            }
        }
    });
    for wanted in 1..=records {
        let value = loop {
            match poll(&mut consumer, &producer_bell) {
                Some(value) => break value,
                None if consumer.sleep().unwrap() => consumer_bell.wait(),
                None => {}
            }
        };
        assert_eq!(value, wanted);
    }
    thread.join().unwrap();
}

#[test]
fn no_record_or_wake_up_is_lost() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| one_way::<true>(4));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fences_a_wake_up_is_lost() {
    loom::model(|| one_way::<false>(3));
}

/// Both directions at once: each end has one bell for records and for room.
#[test]
fn one_bell_serves_both_directions() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (up, down) = (Shared::<true>::new(), Shared::<true>::new());
        let (bell, echo_bell) = (Bell::new(), Bell::new());
        let mut incoming = ConsumerIndex::new(up.clone(), CAPACITY, 0);
        let mut outgoing = ProducerIndex::new(down.clone(), CAPACITY);
        let (mine, peer) = (echo_bell.clone(), bell.clone());
        let thread = thread::spawn(move || {
            for _ in 0..3 {
                let value = loop {
                    match poll(&mut incoming, &peer) {
                        Some(value) => break value,
                        None if incoming.sleep().unwrap() => mine.wait(),
                        None => {}
                    }
                };
                while !offer(&mut outgoing, value, &peer) {
                    if outgoing.sleep().unwrap() {
                        mine.wait();
                    }
                }
            }
        });
        let mut sender = ProducerIndex::new(up, CAPACITY);
        let mut receiver = ConsumerIndex::new(down, CAPACITY, 0);
        let (mut sent, mut received) = (0, 0);
        while received < 3 {
            let mut idle = true;
            while sent < 3 && offer(&mut sender, sent + 1, &echo_bell) {
                (sent, idle) = (sent + 1, false);
            }
            while let Some(value) = poll(&mut receiver, &echo_bell) {
                assert_eq!(value, received + 1);
                (received, idle) = (received + 1, false);
            }
            if idle && (sent == 3 || sender.sleep().unwrap()) && receiver.sleep().unwrap() {
                bell.wait();
            }
        }
        thread.join().unwrap();
    });
}
