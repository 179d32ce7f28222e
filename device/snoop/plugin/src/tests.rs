//! Stores of a simulated QEMU, through the memory shared with a card.

use std::cell::Cell;
use std::thread;

use hamlyn_door::{Kind, Listener};
use hamlyn_snoop::Snoop;
use proptest::prelude::*;

use super::*;

/// Number of pages of the machine.
const PAGES: u64 = 64;

/// One processor's page tables: the distance from each virtual page to its physical page.
type Tables = u64;

/// A store of these bytes, by a processor with these tables. The last page is device memory.
struct Made<'a> {
    bytes: &'a [u8],
    tables: Tables,
    asked: Cell<u32>,
}

impl<'a> Made<'a> {
    fn new(bytes: &'a [u8], tables: Tables) -> Made<'a> {
        Made { bytes, tables, asked: Cell::new(0) }
    }
}

impl Access for Made<'_> {
    fn width(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn value(&self) -> [u8; 16] {
        let mut value = [0xee; 16];
        value[..self.bytes.len()].copy_from_slice(self.bytes);
        value
    }

    fn physical(&self, address: u64) -> Option<u64> {
        self.asked.set(self.asked.get() + 1);
        let page = (address / PAGE + self.tables) % PAGES;
        (page != PAGES - 1).then_some(page * PAGE + address % PAGE)
    }
}

fn pair(processors: usize) -> (Snoop, Snooper) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snoop");
    let listener = Listener::bind(&path, Kind::Messages, 1).unwrap();
    let mut snoop = Snoop::create(PAGES, 256).unwrap();
    let machine = thread::scope(|scope| {
        let machine = scope.spawn(|| Machine::connect(&path));
        while !snoop.accept(&listener).unwrap() {
            thread::yield_now();
        }
        machine.join().unwrap().unwrap()
    });
    (snoop, Snooper::new(machine, processors))
}

/// Returns the stores that the card gets: address and bytes.
fn told(snoop: &mut Snoop) -> Vec<(u64, Vec<u8>)> {
    let next = std::iter::from_fn(|| snoop.next().unwrap());
    next.map(|store| (store.address, store.bytes().to_vec())).collect()
}

/// The running processor of a single-processor machine, which must not be queried.
fn alone() -> usize {
    panic!("QEMU must not be asked")
}

#[test]
fn code_reports_while_watched_and_shortly_after() {
    let (mut snoop, snooper) = pair(1);
    assert!(!(0..3 * QUIET).any(|_| snooper.interrupted(0, 0)), "nothing is watched");
    snoop.watch(5, true).unwrap();
    assert!(!snoop.is_live());
    assert!(snooper.interrupted(0, 0), "all code is to be translated again");
    assert!(!snooper.interrupted(0, 0), "that was asked already");
    assert_eq!(snooper.code_is_gone(), Code::Telling);
    snooper.begin();
    assert!(snoop.is_live() && !snooper.interrupted(0, 0));
    snoop.watch(5, false).unwrap();
    assert!(!(1..QUIET).any(|_| snooper.interrupted(0, 0)), "it may soon begin again");
    assert!(snoop.is_live());
    assert!(snooper.interrupted(0, 0));
    assert!(!snoop.is_live());
    snoop.watch(5, true).unwrap();
    assert_eq!(snooper.code_is_gone(), Code::Bare);
    assert!(snooper.interrupted(0, 0), "something was watched meanwhile");
    assert_eq!(snooper.code_is_gone(), Code::Telling);
}

#[test]
fn partly_translated_block_delays_plain_code() {
    let (mut snoop, snooper) = pair(1);
    snoop.watch(5, true).unwrap();
    assert!(snooper.excepted(0, 0), "bare code is told of nothing, in part or whole");
    snooper.code_is_gone();
    snooper.begin();
    snoop.watch(5, false).unwrap();
    assert!(!(0..3 * QUIET).any(|_| snooper.excepted(0, 0)), "code may have been fetched in vain");
    assert!(!snooper.interrupted(0, 0), "nothing was translated since");
    snooper.translated();
    assert!(snoop.is_live() && !snooper.excepted(0, 0) && !snooper.interrupted(0, 0));
    snooper.translated();
    assert!(snooper.interrupted(0, 0) && !snoop.is_live());
}

#[test]
fn code_is_plain_after_card_is_gone() {
    let (mut snoop, snooper) = pair(1);
    snoop.watch(5, true).unwrap();
    assert!(snooper.interrupted(0, 0));
    snooper.code_is_gone();
    snooper.begin();
    drop(snoop);
    let asked = (0..3 * QUIET).any(|_| snooper.interrupted(0, 0));
    assert!(asked && snooper.code_is_gone() == Code::Bare);
}

#[test]
fn unwatched_page_is_queried_once() {
    let (mut snoop, snooper) = pair(1);
    let made = Made::new(b"x", 0);
    snooper.store(0, alone, 7 * PAGE, &made);
    assert_eq!(made.asked.get(), 0, "nothing is watched");
    snoop.watch(5, true).unwrap();
    for _ in 0..3 {
        snooper.store(0, alone, 7 * PAGE, &made);
    }
    assert_eq!(made.asked.get(), 1);
    snoop.watch(7, true).unwrap();
    snooper.store(0, alone, 7 * PAGE, &made);
    assert_eq!(told(&mut snoop), [(7 * PAGE, b"x".to_vec())]);
    snoop.watch(7, false).unwrap();
    snooper.store(0, alone, 7 * PAGE, &made);
    assert_eq!((told(&mut snoop), made.asked.get()), (vec![], 3));
    // The mapping may have changed.
    snooper.effect(0, alone, Effect::Changes);
    snooper.store(0, alone, 7 * PAGE, &Made::new(b"y", PAGES - 2));
    assert_eq!(told(&mut snoop), [(5 * PAGE, b"y".to_vec())]);
    snooper.effect(0, alone, Effect::Nests);
    for _ in 0..2 {
        snooper.store(0, alone, 7 * PAGE, &made);
    }
    assert_eq!(made.asked.get(), 5);
}

#[test]
fn store_across_pages_is_split() {
    let (mut snoop, snooper) = pair(1);
    snoop.watch(4, true).unwrap();
    snoop.watch(5, true).unwrap();
    snooper.store(0, alone, 5 * PAGE - 3, &Made::new(b"12345678", 0));
    assert_eq!(told(&mut snoop), [(5 * PAGE - 3, b"123".to_vec()), (5 * PAGE, b"45678".to_vec())]);
    // Only the second page is watched, and the first is cached as not watched.
    snooper.store(0, alone, 3 * PAGE, &Made::new(b"x", 0));
    snooper.store(0, alone, 4 * PAGE - 1, &Made::new(b"12", 0));
    assert_eq!(told(&mut snoop), [(4 * PAGE, b"2".to_vec())]);
    // A device's part of a store is not reported either.
    snoop.watch(PAGES - 1, true).unwrap();
    snoop.watch(PAGES - 2, true).unwrap();
    snooper.store(0, alone, (PAGES - 1) * PAGE - 1, &Made::new(b"12", 0));
    assert_eq!(told(&mut snoop), [((PAGES - 1) * PAGE - 1, b"1".to_vec())]);
}

#[test]
fn processors_on_one_thread_are_distinguished() {
    let (mut snoop, snooper) = pair(2);
    snoop.watch(5, true).unwrap();
    let mut by = |said, running: usize, tables| {
        snooper.store(said, || running, 6 * PAGE, &Made::new(b"x", tables));
        snoop.next().unwrap().map(|store| store.processor)
    };
    // The processor is unknown, so nothing is cached.
    assert_eq!((by(0, 0x100, 0), by(0, 0x100, PAGES - 1)), (None, Some(UNKNOWN)));
    snooper.interrupted(0, 0x100);
    snooper.interrupted(1, 0x200);
    // The same virtual address, and QEMU reports the same processor for both.
    assert_eq!((by(0, 0x100, 0), by(0, 0x200, PAGES - 1)), (None, Some(1)));
    snooper.effect(0, || 0x200, Effect::Changes);
    assert_eq!(by(0, 0x100, PAGES - 1), None, "the other's change was not its own");
    snooper.effect(1, || 0x100, Effect::Changes);
    assert_eq!(by(1, 0x100, PAGES - 1), Some(0));
    assert_eq!(by(1, 0, PAGES - 1), Some(UNKNOWN));
}

/// What a machine with two processors does.
#[derive(Debug, Clone)]
enum Step {
    Store { processor: usize, address: u64, bytes: Vec<u8> },
    Map { processor: usize, tables: Tables },
    Watch { page: u64, on: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![Just(1), Just(2), Just(4), Just(8), Just(16)]
        .prop_flat_map(|width| prop::collection::vec(any::<u8>(), width..=width));
    let offset = prop_oneof![0..PAGE, PAGE - 16..PAGE];
    prop_oneof![
        8 => (0usize..2, 0..PAGES, offset, bytes)
            .prop_map(|(processor, page, offset, bytes)| Step::Store { processor, address: page * PAGE + offset, bytes }),
        1 => (0usize..2, 0..PAGES).prop_map(|(processor, tables)| Step::Map { processor, tables }),
        2 => (0..PAGES, any::<bool>()).prop_map(|(page, on)| Step::Watch { page, on }),
    ]
}

proptest! {
    /// Byte by byte: the card gets exactly the bytes in watched memory, in order.
    #[test]
    fn exactly_watched_bytes_are_reported(steps in prop::collection::vec(step(), 1..120)) {
        let (mut snoop, snooper) = pair(2);
        snooper.interrupted(0, 100);
        snooper.interrupted(1, 101);
        let mut tables = [0, 0];
        for step in steps {
            match step {
                Step::Store { processor, address, bytes } => {
                    let made = Made::new(&bytes, tables[processor]);
                    snooper.store(0, || 100 + processor, address, &made);
                    let bytes = bytes.iter().enumerate();
                    let places = bytes.map(|(at, byte)| (made.physical(address + at as u64), *byte));
                    let wanted: Vec<_> = places
                        .filter_map(|(place, byte)| Some((place?, byte)))
                        .filter(|(place, _)| snoop.is_watched(place / PAGE))
                        .collect();
                    let told = told(&mut snoop);
                    let told: Vec<_> = told
                        .iter()
                        .flat_map(|(address, bytes)| bytes.iter().zip(*address..).map(|(byte, at)| (at, *byte)))
                        .collect();
                    prop_assert_eq!(told, wanted);
                }
                Step::Map { processor, tables: now } => {
                    snooper.effect(0, || 100 + processor, Effect::Changes);
                    tables[processor] = now;
                }
                Step::Watch { page, on } => snoop.watch(page, on).unwrap(),
            }
        }
    }
}
