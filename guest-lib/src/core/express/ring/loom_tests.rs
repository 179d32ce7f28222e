//! The ring under loom, which explores the interleavings of two threads and the reorderings that
//! the memory model allows. A lost wake-up is a deadlock, which loom reports. Headers and data are
//! plain cells, on which loom reports unordered accesses: a record visible before its data, and
//! space that may be reused before it was read.

// Loom runs all its threads on one thread, in turns.
use std::rc::Rc;

use loom::cell::Cell;
use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::{AtomicBool, AtomicU64, fence};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::*;

/// Two messages of 8 bytes, and a skip that is only a header.
const CAPACITY: u64 = 40;

/// Mechanisms to disable, to show that they are needed; and the reader's behaviour.
#[derive(Clone, Copy)]
struct Case {
    messages: u64,
    /// Contents of each message.
    words: fn(u64) -> Vec<u64>,
    /// Number of messages received before they are released, if they are there.
    held: u64,
    writer_has_barriers: bool,
    reader_has_barriers: bool,
    /// Clearing a word is one atomic step. On an emulated processor it is not. Then the card's work
    /// must order accesses before a refused ring with accesses after the reopening of the slot.
    /// Otherwise the waker's 0 could overwrite a flag that was set again, and no ring would follow.
    takes_at_once: bool,
    /// The slot is reopened before memory is checked.
    reopens_first: bool,
}

const WHOLE: Case = Case {
    messages: 4,
    words: |value| vec![value],
    held: 1,
    writer_has_barriers: true,
    reader_has_barriers: true,
    takes_at_once: true,
    reopens_first: true,
};

/// Alternates between less than a quarter of the ring, whose credit is not returned at once, and
/// the whole ring. The latter waits for the credit that a reader returns when it finds nothing, or
/// sleeps.
const UNEVEN: Case =
    Case { words: |value| vec![value; if value % 2 == 1 { 0 } else { CAPACITY as usize / 8 - 1 }], ..WHOLE };

struct Memory {
    words: [AtomicU64; 6],
    data: [Cell<u64>; CAPACITY as usize / 8],
}

/// The ring, as one end sees it.
#[derive(Clone)]
struct End {
    memory: Rc<Memory>,
    has_barriers: bool,
    takes_at_once: bool,
}

impl End {
    fn new(takes_at_once: bool) -> Self {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        let memory = Memory { words, data: std::array::from_fn(|_| Cell::new(0)) };
        Self { memory: Rc::new(memory), has_barriers: true, takes_at_once }
    }

    fn data(&self, at: u64) -> &Cell<u64> {
        &self.memory.data[at as usize / 8]
    }

    fn writer(&self, has_barriers: bool) -> Writer<Self> {
        Writer::new(Self { has_barriers, ..self.clone() }, CAPACITY)
    }

    fn reader(&self, has_barriers: bool) -> Reader<Self> {
        Reader::new(Self { has_barriers, ..self.clone() }, CAPACITY)
    }
}

impl Shared for End {
    fn load(&self, word: Word) -> u64 {
        self.memory.words[word as usize].load(LOAD)
    }

    fn store(&self, word: Word, value: u64) {
        self.memory.words[word as usize].store(value, STORE);
    }

    fn take(&self, word: Word) {
        if self.takes_at_once {
            self.memory.words[word as usize].swap(0, TAKE);
        } else {
            self.load(word);
            self.store(word, 0);
        }
    }

    fn barrier(&self) {
        if self.has_barriers {
            fence(SeqCst);
        }
    }

    fn header(&self, at: u64) -> u64 {
        self.data(at).get()
    }

    fn set_header(&self, at: u64, value: u64) {
        self.data(at).set(value);
    }
}

/// A slot that wakes an end. An arrival locks it, an arrival at a locked slot is refused and lost,
/// and the woken end unlocks it. The lock is a plain word, so a refusal orders nothing unless
/// `has_order` is set.
struct Slot {
    locked: AtomicBool,
    queue: Mutex<u32>,
    wakes: Condvar,
    reopens_first: bool,
    has_order: bool,
}

impl Slot {
    fn new(case: Case) -> Rc<Self> {
        let (locked, queue, wakes) = (AtomicBool::new(false), Mutex::new(0), Condvar::new());
        Rc::new(Self {
            locked,
            queue,
            wakes,
            reopens_first: case.reopens_first,
            has_order: !case.takes_at_once,
        })
    }

    fn ring(&self) {
        let queue = self.has_order.then(|| self.queue.lock().unwrap());
        if self.locked.load(Relaxed) {
            return;
        }
        self.locked.store(true, Relaxed);
        *queue.unwrap_or_else(|| self.queue.lock().unwrap()) += 1;
        self.wakes.notify_one();
    }

    fn wait(&self) {
        let mut queue = self.queue.lock().unwrap();
        // Shows that the time matters: reopens before the next sleep instead of after the wake-up.
        if !self.reopens_first && *queue == 0 {
            self.locked.store(false, Relaxed);
        }
        while *queue == 0 {
            queue = self.wakes.wait(queue).unwrap();
        }
        *queue -= 1;
        let _queue = self.has_order.then_some(queue);
        if self.reopens_first {
            self.locked.store(false, Relaxed);
        }
    }
}

/// An end's own slot, and the peer's.
type Bells = [Rc<Slot>; 2];

fn offer(writer: &mut Writer<End>, words: &[u64], [_, peer]: &Bells) -> bool {
    let span = writer.reserve(8 * words.len() as u64).unwrap();
    if let Some(span) = span {
        (span.at..).step_by(8).zip(words).for_each(|(at, word)| writer.shared().data(at).set(*word));
        writer.commit(span);
    }
    if writer.take_bell() {
        peer.ring();
    }
    span.is_some()
}

/// Offers a message until there is space for it.
fn send(writer: &mut Writer<End>, words: &[u64], bells: &Bells) {
    let [mine, peer] = bells;
    while !offer(writer, words, bells) {
        let sleeps = writer.sleep(8 * words.len() as u64).unwrap();
        if writer.take_bell() {
            peer.ring();
        }
        if sleeps {
            mine.wait();
        }
    }
}

fn receive(reader: &mut Reader<End>, [_, peer]: &Bells) -> Option<Span> {
    let span = reader.receive().unwrap();
    if reader.take_bell() {
        peer.ring();
    }
    span
}

/// Returns the contents of received messages. They belong to the reader until it releases them all.
fn take(reader: &mut Reader<End>, spans: &[Span], [_, peer]: &Bells) -> Vec<Vec<u64>> {
    let words = |span: &Span| {
        (span.at..span.at + span.length).step_by(8).map(|at| reader.shared().data(at).get()).collect()
    };
    let messages = spans.iter().map(words).collect();
    spans.iter().for_each(|span| reader.release(span.end));
    if reader.take_bell() {
        peer.ring();
    }
    messages
}

fn sleep(reader: &mut Reader<End>, [mine, peer]: &Bells) {
    let sleeps = reader.sleep().unwrap();
    if reader.take_bell() {
        peer.ring();
    }
    if sleeps {
        mine.wait();
    }
}

/// Returns the next message's word. Blocks until it arrives.
fn next(reader: &mut Reader<End>, bells: &Bells) -> u64 {
    loop {
        match receive(reader, bells) {
            Some(span) => return take(reader, &[span], bells)[0][0],
            None => sleep(reader, bells),
        }
    }
}

/// One direction: more than the ring holds, both ends sleeping whenever possible, and the end.
fn one_way(case: Case) {
    let ring = End::new(case.takes_at_once);
    let [writers, readers] = [(); 2].map(|()| Slot::new(case));
    let (mut writer, mut reader) =
        (ring.writer(case.writer_has_barriers), ring.reader(case.reader_has_barriers));
    let bells = [writers.clone(), readers.clone()];
    let thread = thread::spawn(move || {
        for value in 1..=case.messages {
            send(&mut writer, &(case.words)(value), &bells);
        }
        writer.end(1);
        if writer.take_bell() {
            bells[1].ring();
        }
    });
    let bells = [readers, writers];
    let mut received = 0;
    loop {
        let spans: Vec<Span> = (0..case.held).map_while(|_| receive(&mut reader, &bells)).collect();
        if spans.is_empty() {
            if reader.ended().unwrap() == Some(1) {
                break;
            }
            sleep(&mut reader, &bells);
        }
        for words in take(&mut reader, &spans, &bells) {
            received += 1;
            assert_eq!(words, (case.words)(received));
        }
    }
    assert_eq!(received, case.messages);
    thread.join().unwrap();
}

/// Both directions at once, with one slot for the two halves of each end: a ring for one half is
/// not consumed by the other.
fn both_ways(values: u64) {
    let rings = [(); 2].map(|()| End::new(true));
    let [one, other] = [(); 2].map(|()| Slot::new(WHOLE));
    let (mut back, mut asked) = (rings[1].writer(true), rings[0].reader(true));
    let bells = [other.clone(), one.clone()];
    let thread = thread::spawn(move || {
        for _ in 0..values {
            let value = next(&mut asked, &bells);
            send(&mut back, &[value + 10], &bells);
        }
    });
    let (mut ask, mut answers) = (rings[0].writer(true), rings[1].reader(true));
    let bells = [one, other];
    (0..values).for_each(|value| send(&mut ask, &[value], &bells));
    (0..values).for_each(|value| assert_eq!(next(&mut answers, &bells), value + 10));
    thread.join().unwrap();
}

/// The reader leaves after the first message; the writer continues until it notices.
fn leaving() {
    let ring = End::new(true);
    let [writers, readers] = [(); 2].map(|()| Slot::new(WHOLE));
    let (mut writer, mut reader) = (ring.writer(true), ring.reader(true));
    let bells = [writers.clone(), readers.clone()];
    let thread = thread::spawn(move || {
        while offer(&mut writer, &[1], &bells) || !writer.reader_has_left() {
            let sleeps = writer.sleep(8).unwrap();
            if writer.take_bell() {
                bells[1].ring();
            }
            if sleeps {
                bells[0].wait();
            }
        }
    });
    let bells = [readers, writers];
    assert_eq!(next(&mut reader, &bells), 1);
    reader.leave();
    if reader.take_bell() {
        bells[1].ring();
    }
    thread.join().unwrap();
}

fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

#[test]
fn no_message_and_no_wake_up_is_lost() {
    explore(2, || one_way(WHOLE));
}

#[test]
fn held_messages_survive_later_messages() {
    explore(2, || one_way(Case { messages: 5, held: 2, ..WHOLE }));
}

#[test]
fn sleeping_reader_returns_withheld_credit() {
    explore(2, || one_way(UNEVEN));
    explore(2, || one_way(Case { held: 2, ..UNEVEN }));
}

#[test]
fn two_step_clear_loses_no_wake_up() {
    explore(2, || one_way(Case { takes_at_once: false, ..WHOLE }));
}

#[test]
fn leaving_reader_wakes_waiting_writer() {
    explore(2, leaving);
}

#[test]
fn one_slot_is_enough_for_both_ways() {
    explore(2, || both_ways(3));
}

#[test]
#[should_panic(expected = "deadlock")]
fn missing_writer_barriers_lose_a_wake_up() {
    explore(3, || one_way(Case { messages: 3, writer_has_barriers: false, ..WHOLE }));
}

#[test]
#[should_panic(expected = "deadlock")]
fn missing_reader_barriers_lose_a_wake_up() {
    explore(3, || one_way(Case { messages: 3, reader_has_barriers: false, ..WHOLE }));
}

#[test]
#[should_panic(expected = "deadlock")]
fn reopening_slot_after_check_loses_wake_up() {
    explore(3, || one_way(Case { messages: 3, reopens_first: false, ..WHOLE }));
}
