//! The ring in one thread, with an honest peer, with one that dies, and with one that stores
//! anything.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use proptest::prelude::*;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;

/// Shared memory with a scribbler, which stores anything anywhere just before a load, with
/// probability `often` / 256.
struct Memory {
    words: [Cell<u64>; 6],
    data: Vec<Cell<u64>>,
    scribbler: RefCell<SplitMix64>,
    often: u64,
}

#[derive(Clone)]
struct Both(Rc<Memory>);

impl Both {
    fn new(capacity: u64, seed: u64, often: u64) -> Self {
        let data = (0..capacity / 8).map(|_| Cell::new(0)).collect();
        let scribbler = RefCell::new(SplitMix64::seed_from_u64(seed));
        Self(Rc::new(Memory { words: Default::default(), data, scribbler, often }))
    }

    fn data(&self, at: u64) -> &Cell<u64> {
        assert_eq!(at % 8, 0);
        &self.0.data[at as usize / 8]
    }

    fn scribble(&self) {
        let mut random = self.0.scribbler.borrow_mut();
        if random.next_u64() % 256 >= self.0.often {
            return;
        }
        let capacity = 8 * self.0.data.len() as u64;
        // Almost valid values get further than random ones.
        let number = match random.next_u64() % 4 {
            0 => random.next_u64(),
            1 => random.next_u64() % (2 * capacity),
            _ => random.next_u64() % (2 * capacity) / 8 * 8,
        };
        let place = random.next_u64() as usize % (5 + self.0.data.len());
        match self.0.words.get(place) {
            Some(word) => word.set(word.get().wrapping_add(number)),
            None => self.0.data[place - 5].set(((random.next_u64() % 4) << 32) | (number % (capacity + 16))),
        }
    }
}

impl Shared for Both {
    fn load(&self, word: Word) -> u64 {
        self.scribble();
        self.0.words[word as usize].get()
    }

    fn store(&self, word: Word, value: u64) {
        self.0.words[word as usize].set(value);
    }

    fn take(&self, word: Word) {
        self.scribble();
        self.0.words[word as usize].set(0);
    }

    fn barrier(&self) {}

    fn header(&self, at: u64) -> u64 {
        self.scribble();
        self.data(at).get()
    }

    fn set_header(&self, at: u64, value: u64) {
        self.data(at).set(value);
    }
}

/// A peer that dies: after `left` stores it makes no more.
struct Dying {
    inner: Both,
    left: Cell<u32>,
}

impl Dying {
    fn lives(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

impl Shared for Dying {
    fn load(&self, word: Word) -> u64 {
        self.inner.load(word)
    }

    fn store(&self, word: Word, value: u64) {
        if self.lives() {
            self.inner.store(word, value);
        }
    }

    fn take(&self, word: Word) {
        if self.lives() {
            self.inner.take(word);
        }
    }

    fn barrier(&self) {}

    fn header(&self, at: u64) -> u64 {
        self.inner.header(at)
    }

    fn set_header(&self, at: u64, value: u64) {
        if self.lives() {
            self.inner.set_header(at, value);
        }
    }
}

/// Returns the ends of a ring that has carried `position` bytes, a multiple of the capacity.
fn ends(writers: Both, readers: Both, capacity: u64, position: u64) -> (Writer<Both>, Reader<Both>) {
    for both in [&writers, &readers] {
        both.store(Word::Written, position);
        both.store(Word::Released, position);
    }
    let (mut writer, mut reader) = (Writer::new(writers, capacity), Reader::new(readers, capacity));
    (writer.written, writer.told, writer.released) = (position, position, position);
    (reader.next, reader.released, reader.told, reader.written) = (position, position, position, position);
    (writer, reader)
}

/// Zero, and positions that soon overflow 32 or 33 bits.
fn bytes_before() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just((1 << 32) - 1), Just((1 << 33) - 1)]
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Sends a message, with its length in 65,536ths of the longest.
    Send(u16),
    /// Reserves space for a message and abandons it.
    Abandon(u16),
    Receive,
    /// Releases the oldest message held.
    Release,
    Sleep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let short = |length: u16| length % 2048;
    let step = prop_oneof![
        3 => any::<u16>().prop_map(move |length| Step::Send(short(length))),
        2 => any::<u16>().prop_map(Step::Send),
        1 => Just(Step::Send(u16::MAX)),
        1 => any::<u16>().prop_map(Step::Abandon),
        4 => Just(Step::Receive),
        4 => Just(Step::Release),
        1 => Just(Step::Sleep),
    ];
    proptest::collection::vec(step, 1..200)
}

fn length_of(share: u16, longest: u64) -> u64 {
    u64::from(share) * longest / 65535
}

/// Fills every word of a message with the message's number.
fn fill(both: &Both, span: Span, number: u64) {
    (0..span.length.div_ceil(8)).for_each(|word| both.data(span.at + 8 * word).set(number));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn honest_peer_messages_arrive_once_in_order(
        steps in steps(), words in 2..40_u64, before in bytes_before(),
    ) {
        let capacity = 8 * words;
        let both = Both::new(capacity, 0, 0);
        let (mut writer, mut reader) =
            ends(both.clone(), both.clone(), capacity, before / capacity * capacity);
        let (mut sent, mut under_way, mut held, mut received) = (0, VecDeque::new(), VecDeque::new(), 0);
        // At the end everything in flight is received, and the longest message fits.
        let end = (0..2 * capacity).flat_map(|_| [Step::Receive, Step::Release]);
        let last = [Step::Send(65535), Step::Receive, Step::Release, Step::Send(65535), Step::Receive];
        for step in steps.into_iter().chain(end).chain(last) {
            match step {
                Step::Send(share) => {
                    let length = length_of(share, writer.longest());
                    if let Some(span) = writer.reserve(length).unwrap() {
                        fill(&both, span, sent);
                        writer.commit(span);
                        under_way.push_back((sent, length));
                        sent += 1;
                    }
                }
                Step::Abandon(share) => {
                    if let Some(span) = writer.reserve(length_of(share, writer.longest())).unwrap() {
                        fill(&both, span, u64::MAX);
                    }
                }
                Step::Receive => {
                    if let Some(span) = reader.receive().unwrap() {
                        let (number, length) = under_way.pop_front().expect("nothing is under way");
                        prop_assert_eq!((number, length), (received, span.length));
                        received += 1;
                        held.push_back((span, number));
                    }
                }
                Step::Release => {
                    if let Some((span, number)) = held.pop_front() {
                        for word in 0..span.length.div_ceil(8) {
                            prop_assert_eq!(both.data(span.at + 8 * word).get(), number);
                        }
                        reader.release(span.end);
                    }
                }
                Step::Sleep => {
                    let sleeps = reader.sleep().unwrap();
                    prop_assert_eq!(sleeps, under_way.is_empty(), "it sleeps if no message is there");
                    prop_assert_eq!(both.load(Word::ReaderSleeps), u64::from(sleeps));
                    writer.sleep(writer.longest()).unwrap();
                }
            }
        }
        prop_assert!(held.back().is_some_and(|(span, _)| span.length == writer.longest()));
        writer.end(7);
        while let Some(span) = reader.receive().unwrap() {
            under_way.pop_front();
            reader.release(span.end);
        }
        prop_assert!(under_way.is_empty());
        prop_assert_eq!(reader.ended().unwrap(), Some(7));
    }

    #[test]
    fn hostile_peer_cannot_cause_out_of_bounds_access(
        steps in steps(), words in 2..40_u64, seed: u64, often in 0..256_u64, before in bytes_before(),
    ) {
        let capacity = 8 * words;
        // Each end has its own hostile peer: the two share nothing.
        let (one, other) = (Both::new(capacity, seed, often), Both::new(capacity, !seed, often));
        let (mut writer, mut reader) = ends(one, other, capacity, before / capacity * capacity);
        let mut held = VecDeque::new();
        let inside = |span: Span| span.at >= 8 && span.length <= capacity && span.at + span.length <= capacity;
        let mut broken = (None, None);
        for step in steps {
            match step {
                Step::Send(share) | Step::Abandon(share) => match writer.reserve(length_of(share, writer.longest())) {
                    Ok(Some(span)) => {
                        prop_assert!(inside(span));
                        writer.commit(span);
                    }
                    Ok(None) => {}
                    Err(why) => broken.0 = broken.0.or(Some(why)),
                },
                Step::Receive => match reader.receive() {
                    Ok(span) => {
                        prop_assert!(broken.1.is_none(), "it goes on behind {:?}", broken.1);
                        held.extend(span.inspect(|span| assert!(inside(*span))));
                    }
                    Err(why) => {
                        prop_assert_eq!(broken.1.unwrap_or(why), why);
                        broken.1 = Some(why);
                    }
                },
                Step::Release => {
                    if let Some(span) = held.pop_front() {
                        reader.release(span.end);
                    }
                }
                Step::Sleep => {
                    let _ = (writer.sleep(1), reader.sleep(), reader.ended());
                }
            }
            prop_assert!(writer.written - writer.released <= capacity);
            prop_assert!(reader.told <= reader.released && reader.released <= reader.next);
            prop_assert!(reader.next <= reader.written && reader.written <= reader.told + capacity);
        }
    }
}

#[test]
fn nonsense_reports_value_and_limit() {
    let both = Both::new(64, 0, 0);
    let mut reader = Reader::new(both.clone(), 64);
    both.store(Word::Written, 72);
    let nonsense = reader.receive().unwrap_err();
    assert_eq!(
        nonsense.to_string(),
        "it says to have written 72 bytes of a ring, which are from 0 to 64 and a multiple of 8"
    );
    both.store(Word::Written, 16);
    assert_eq!(reader.receive(), Err(nonsense), "it does not come back");
    let mut reader = Reader::new(both.clone(), 64);
    both.set_header(0, MESSAGE << 32 | 9);
    assert_eq!(reader.receive(), Err(Nonsense::Length { position: 0, length: 9, limit: 8 }));
    let mut reader = Reader::new(both.clone(), 64);
    both.set_header(0, 3 << 32);
    assert_eq!(reader.receive(), Err(Nonsense::Kind { position: 0, kind: 3 }));
    let mut writer = Writer::new(both.clone(), 64);
    both.store(Word::Released, 8);
    let span = writer.reserve(40).unwrap().unwrap();
    writer.commit(span);
    both.store(Word::Released, 56);
    let nonsense = writer.reserve(16).unwrap_err();
    assert_eq!(nonsense, Nonsense::Released { value: 56, last: 0, limit: 48 });
    assert_eq!(writer.reserve(0), Err(nonsense), "it does not come back, though there was room");
}

#[test]
fn reader_woken_by_skip_sleeps_again() {
    let both = Both::new(64, 0, 0);
    let (mut writer, mut reader) = (Writer::new(both.clone(), 64), Reader::new(both.clone(), 64));
    let span = writer.reserve(24).unwrap().unwrap();
    writer.commit(span);
    let span = reader.receive().unwrap().unwrap();
    reader.release(span.end);
    assert!(reader.sleep().unwrap());
    // The message after the skip has no space until the skip is passed.
    assert_eq!(writer.reserve(56), Ok(None));
    assert!(writer.take_bell(), "the skip is told of");
    assert!(writer.sleep(56).unwrap());
    assert!(reader.sleep().unwrap(), "no message is there");
    assert!(reader.take_bell(), "room is told of");
    let span = writer.reserve(56).unwrap().unwrap();
    writer.commit(span);
    assert!(writer.take_bell(), "the message wakes the sleeper");
    assert_eq!(reader.receive(), Ok(Some(span)));
}

/// Sends messages through a small ring until the writer is done, or dies after `stores` stores.
/// Returns whether it was done.
fn die_behind(stores: u32, between: u64) -> bool {
    let both = Both::new(64, 0, 0);
    let (mut writer, mut reader) = (
        Writer::new(Dying { inner: both.clone(), left: Cell::new(stores) }, 64),
        Reader::new(both.clone(), 64),
    );
    let mut told = VecDeque::new();
    let mut read_all = |told: &mut VecDeque<(u64, u64)>| {
        while let Some(span) = reader.receive().unwrap() {
            let (number, length) = told.pop_front().expect("it was told of no more");
            assert_eq!(span.length, length);
            (0..length.div_ceil(8)).for_each(|word| assert_eq!(both.data(span.at + 8 * word).get(), number));
            reader.release(span.end);
        }
        assert_eq!((told.front(), reader.sleep()), (None, Ok(true)), "behind {stores} stores");
    };
    for (number, length) in (1..).zip([8, 24, 0, 40, 56, 13, 16, 24, 8, 8, 56, 0, 0, 32, 1]) {
        let mut room = writer.reserve(length).unwrap();
        // The second attempt is after a passed skip.
        for _ in 0..2 {
            if room.is_none() {
                read_all(&mut told);
                room = writer.reserve(length).unwrap();
            }
        }
        let is_dead = || writer.shared().left.get() == 0;
        let Some(span) = room else {
            assert!(is_dead(), "there is room for {length} bytes");
            break;
        };
        if !is_dead() {
            fill(&both, span, number);
        }
        writer.commit(span);
        if both.load(Word::Written) == span.end {
            told.push_back((number, length));
        }
        if number % between == 0 {
            read_all(&mut told);
        }
    }
    read_all(&mut told);
    writer.shared().lives()
}

#[test]
fn published_messages_survive_writer_death() {
    for between in 1..=4 {
        let stores = (0..1000).find(|stores| die_behind(*stores, between));
        assert!(stores.is_some_and(|stores| stores > 40), "it has died {stores:?} times");
    }
}
