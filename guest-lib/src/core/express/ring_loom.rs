//! The ring under loom, which tries the interleavings of two threads and the reorderings that the memory model allows. A lost
//! wake-up is a deadlock, which loom reports; a record that is seen before its data, or its room reused before it was read, is a wrong value.

use std::sync::Arc;

use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;

/// Two messages of 8 bytes, and a skip of a header alone.
const CAPACITY: u64 = 40;

struct Memory {
    words: [AtomicU64; 5],
    data: [AtomicU64; CAPACITY as usize / 8],
}

#[derive(Clone)]
struct Both<const FENCED: bool>(Arc<Memory>);

impl<const F: bool> Both<F> {
    fn new() -> Self {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Self(Arc::new(Memory { words, data: std::array::from_fn(|_| AtomicU64::new(0)) }))
    }

    fn data(&self, at: u64) -> &AtomicU64 {
        &self.0.data[at as usize / 8]
    }
}

impl<const FENCED: bool> Shared for Both<FENCED> {
    fn load(&self, word: Word) -> u64 {
        self.0.words[word as usize].load(Acquire)
    }

    fn store(&self, word: Word, value: u64) {
        self.0.words[word as usize].store(value, Release);
    }

    fn take(&self, word: Word) -> u64 {
        self.0.words[word as usize].swap(0, AcqRel)
    }

    fn barrier(&self) {
        if FENCED {
            fence(SeqCst);
        }
    }

    fn header(&self, at: u64) -> u64 {
        self.data(at).load(Relaxed)
    }

    fn set_header(&self, at: u64, value: u64) {
        self.data(at).store(value, Relaxed);
    }
}

/// A notification queue, or a descriptor that is polled.
#[derive(Clone)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    fn ring(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.0.0.lock().unwrap();
        while !*rung {
            rung = self.0.1.wait(rung).unwrap();
        }
        *rung = false;
    }
}

fn offer<const F: bool>(writer: &mut Writer<Both<F>>, value: u64, peer: &Bell) -> bool {
    let span = writer.reserve(8).unwrap();
    if let Some(span) = span {
        writer.shared().data(span.at).store(value, Relaxed);
        writer.commit(span);
    }
    if writer.take_bell() {
        peer.ring();
    }
    span.is_some()
}

fn poll<const F: bool>(reader: &mut Reader<Both<F>>, peer: &Bell) -> Option<u64> {
    let span = reader.receive().unwrap();
    let value = span.map(|span| {
        assert_eq!(span.length, 8);
        let value = reader.shared().data(span.at).load(Relaxed);
        reader.release(span.end);
        value
    });
    if reader.take_bell() {
        peer.ring();
    }
    value
}

fn sleep<const F: bool>(reader: &mut Reader<Both<F>>, mine: &Bell, peer: &Bell) {
    let sleeps = reader.sleep().unwrap();
    if reader.take_bell() {
        peer.ring();
    }
    if sleeps {
        mine.wait();
    }
}

/// Offers a value until there is room for it.
fn send<const F: bool>(writer: &mut Writer<Both<F>>, value: u64, mine: &Bell, peer: &Bell) {
    while !offer(writer, value, peer) {
        let sleeps = writer.sleep(8).unwrap();
        if writer.take_bell() {
            peer.ring();
        }
        if sleeps {
            mine.wait();
        }
    }
}

/// The next value, whenever it comes.
fn next<const F: bool>(reader: &mut Reader<Both<F>>, mine: &Bell, peer: &Bell) -> u64 {
    loop {
        match poll(reader, peer) {
            Some(value) => return value,
            None => sleep(reader, mine, peer),
        }
    }
}

/// One way: more than the ring holds, both ends asleep whenever they can be, and the end of it.
fn one_way<const F: bool>(messages: u64) {
    let both = Both::<F>::new();
    let (writers, readers) = (Bell::new(), Bell::new());
    let mut writer = Writer::new(both.clone(), CAPACITY);
    let mut reader = Reader::new(both, CAPACITY);
    let (mine, peer) = (writers.clone(), readers.clone());
    let thread = thread::spawn(move || {
        for value in 1..=messages {
            send(&mut writer, value, &mine, &peer);
        }
        writer.end(1);
        if writer.take_bell() {
            peer.ring();
        }
    });
    let mut received = 0;
    loop {
        match poll(&mut reader, &writers) {
            Some(value) => {
                received += 1;
                assert_eq!(value, received);
            }
            None if reader.ended().unwrap() == Some(1) => break,
            None => sleep(&mut reader, &readers, &writers),
        }
    }
    assert_eq!(received, messages);
    thread.join().unwrap();
}

/// Both ways at once, where each end has one bell for its two halves: what rings for the one is not taken from the other.
fn both_ways(values: u64) {
    let rings = [Both::<true>::new(), Both::new()];
    let bells = [Bell::new(), Bell::new()];
    let writer = |ring: usize| Writer::new(rings[ring].clone(), CAPACITY);
    let reader = |ring: usize| Reader::new(rings[ring].clone(), CAPACITY);
    let (mut back, mut asked) = (writer(1), reader(0));
    let [peer, mine] = bells.clone();
    let thread = thread::spawn(move || {
        for _ in 0..values {
            let value = next(&mut asked, &mine, &peer);
            send(&mut back, value + 10, &mine, &peer);
        }
    });
    let (mut ask, mut answers) = (writer(0), reader(1));
    let [mine, peer] = bells;
    (0..values).for_each(|value| send(&mut ask, value, &mine, &peer));
    (0..values).for_each(|value| assert_eq!(next(&mut answers, &mine, &peer), value + 10));
    thread.join().unwrap();
}

fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

#[test]
fn no_message_and_no_wake_up_is_lost() {
    explore(2, || one_way::<true>(4));
}

#[test]
fn one_bell_is_enough_for_both_ways() {
    explore(2, || both_ways(3));
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_barriers_a_wake_up_is_lost() {
    explore(3, || one_way::<false>(3));
}
