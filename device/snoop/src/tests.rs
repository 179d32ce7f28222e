//! Both ends of the memory, each in a thread.

use std::path::PathBuf;
use std::thread;

use hamlyn_door::Kind;
use hamlyn_fabric::index::{Name, Words};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::store::PAGE;
use crate::{ConnectError, Machine};

/// A card's listener.
struct Door {
    listener: Listener,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Door {
    fn new() -> Door {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snoop");
        Door { listener: Listener::bind(&path, Kind::Messages, 8).unwrap(), path, _folder: folder }
    }

    /// Connects a machine.
    fn connect(&self, snoop: &mut Snoop) -> Machine {
        thread::scope(|scope| {
            let machine = scope.spawn(|| Machine::connect(&self.path));
            while !snoop.accept(&self.listener).unwrap() {
                thread::yield_now();
            }
            machine.join().unwrap().unwrap()
        })
    }
}

fn pair(pages: u64, records: u64) -> (Snoop, Machine) {
    let mut snoop = Snoop::create(pages, records).unwrap();
    let machine = Door::new().connect(&mut snoop);
    (snoop, machine)
}

/// Sleeps until there is news.
fn sleep(snoop: &mut Snoop) {
    if snoop.sleep() {
        poll(&mut [PollFd::new(&snoop.bell().unwrap(), PollFlags::IN)], None).unwrap();
        snoop.hear();
    }
}

fn wait_for_next(snoop: &mut Snoop) -> Result<Store, Ended> {
    loop {
        if let Some(store) = snoop.next()? {
            return Ok(store);
        }
        sleep(snoop);
    }
}

/// Returns the bytes of store `number`.
fn bytes(number: u64) -> Vec<u8> {
    number.to_le_bytes()[..1 + (number % 8) as usize].to_vec()
}

#[test]
fn stores_stay_in_order_through_full_ring() {
    let (mut snoop, machine) = pair(8, 2);
    thread::scope(|scope| {
        for processor in 0..2 {
            let machine = &machine;
            scope.spawn(move || (0..2000).for_each(|at| machine.tell(processor, 8 * at, &bytes(at))));
        }
        let mut next = [0; 2];
        for _ in 0..4000 {
            let store = wait_for_next(&mut snoop).unwrap();
            let at = &mut next[store.processor as usize];
            assert_eq!((store.address, store.bytes()), (8 * *at, &bytes(*at)[..]));
            *at += 1;
        }
    });
    assert_eq!(snoop.next(), Ok(None));
}

#[test]
fn watch_takes_effect_immediately() {
    let (mut snoop, machine) = pair(130, 2);
    assert_eq!((machine.watch(), machine.is_any_watched()), (0, false));
    snoop.watch(129, true).unwrap();
    snoop.watch(129, true).unwrap();
    snoop.watch(3, true).unwrap();
    assert_eq!((machine.watch(), machine.is_any_watched()), (5, true));
    let watched =
        |machine: &Machine| (0..200).filter(|page| machine.is_watched(page * PAGE + 7)).collect::<Vec<_>>();
    assert_eq!(watched(&machine), [3, 129]);
    snoop.watch(129, false).unwrap();
    assert_eq!(watched(&machine), [3]);
    snoop.watch(3, false).unwrap();
    assert_eq!((machine.watch(), machine.is_any_watched()), (8, false));
    assert_eq!(snoop.watch(130, true), Err(PageError { page: 130, limit: 130 }));
    assert!(!snoop.is_watched(130) && !snoop.is_watched(u64::MAX) && !machine.is_watched(u64::MAX));
}

#[test]
fn invalid_sizes_are_refused() {
    for (pages, records) in [(0, 2), (1 << 29, 2), (1, 0), (1, 1), (1, 3), (1, 1 << 25)] {
        assert!(Snoop::create(pages, records).is_err(), "{pages} {records}");
    }
}

#[test]
fn last_stores_are_taken_before_next_plugin() {
    let (mut snoop, door) = (Snoop::create(16, 8).unwrap(), Door::new());
    snoop.watch(5, true).unwrap();
    let first = door.connect(&mut snoop);
    assert!(first.is_watched(5 * PAGE) && first.is_any_watched());
    first.tell(0, 5 * PAGE, b"last");
    drop(first);
    assert_eq!(wait_for_next(&mut snoop).unwrap().bytes(), b"last");
    assert!(matches!(wait_for_next(&mut snoop), Err(Ended::Left(_))));
    assert!(!snoop.is_attached() && !snoop.is_live() && snoop.next() == Ok(None));
    snoop.watch(6, true).unwrap();
    let second = door.connect(&mut snoop);
    assert!(second.is_watched(5 * PAGE) && second.is_watched(6 * PAGE));
    second.tell(0, 6 * PAGE, b"more");
    assert_eq!(wait_for_next(&mut snoop).unwrap().bytes(), b"more");
}

#[test]
fn stores_after_hang_up_are_bounded() {
    let (mut snoop, machine) = pair(1, 4);
    let layout = machine.memory();
    drop(machine);
    sleep(&mut snoop);
    let mut stores = (0..100).map(|taken| {
        // That process still has the memory mapped.
        layout.record(32 * taken).copy_from(&Store::new(0, 0, b"x").to_record());
        Words::store(&layout, Name::Produced, 32 * (taken + 1), Ordering::Release);
        snoop.next()
    });
    assert_eq!(stores.by_ref().take_while(Result::is_ok).count(), 4);
    drop(stores);
    assert!(!snoop.is_attached());
}

#[test]
fn hung_up_plugin_does_not_block_another() {
    let (mut snoop, door) = (Snoop::create(1, 4).unwrap(), Door::new());
    let first = door.connect(&mut snoop);
    assert!(snoop.sleep());
    first.tell(0, 0, b"lost");
    drop(first);
    snoop.hear();
    assert!(snoop.bell().is_some(), "a ring comes before the end");
    snoop.hear();
    assert!(snoop.is_attached() && snoop.bell().is_none(), "there is nothing more to hear");
    let second = door.connect(&mut snoop);
    second.tell(0, 0, b"next");
    assert_eq!(wait_for_next(&mut snoop).unwrap().bytes(), b"next");
}

#[test]
fn machine_that_stays_live_wakes_card() {
    let (mut snoop, machine) = pair(1, 2);
    snoop.watch(0, true).unwrap();
    // As if the card had looked while the machine was about to end.
    assert!(!snoop.is_live() && snoop.sleep());
    assert!(!machine.end());
    poll(&mut [PollFd::new(&snoop.bell().unwrap(), PollFlags::IN)], None).unwrap();
    snoop.hear();
    assert!(!snoop.sleep() && snoop.is_live());
}

#[test]
fn second_plugin_is_refused_with_reason() {
    let (mut snoop, door) = (Snoop::create(1, 2).unwrap(), Door::new());
    let _first = door.connect(&mut snoop);
    let second = thread::scope(|scope| {
        let second = scope.spawn(|| Machine::connect(&door.path));
        while !second.is_finished() {
            assert!(!snoop.accept(&door.listener).unwrap());
        }
        second.join().unwrap()
    });
    let Err(ConnectError::Refused { reason, .. }) = second else { panic!("{second:?}") };
    assert!(reason.contains("already"), "{reason}");
}

#[test]
fn waiting_processor_continues_when_card_dies() {
    let (snoop, machine) = pair(1, 2);
    thread::scope(|scope| {
        let processor = scope.spawn(|| (0..10).for_each(|_| machine.tell(0, 0, b"x")));
        while Words::load(&machine.memory(), Name::ProducerSleeps, Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        drop(snoop);
        processor.join().unwrap();
    });
    assert!(machine.is_gone() && !machine.is_any_watched() && machine.end());
}

#[test]
fn look_detects_dead_card() {
    let (snoop, machine) = pair(1, 2);
    machine.look();
    assert!(!machine.is_gone());
    drop(snoop);
    machine.look();
    assert!(machine.is_gone());
}

#[test]
fn sleeping_card_wakes_when_machine_is_live() {
    let (mut snoop, machine) = pair(1, 2);
    snoop.watch(0, true).unwrap();
    assert!(!snoop.is_live() && snoop.sleep());
    machine.begin();
    poll(&mut [PollFd::new(&snoop.bell().unwrap(), PollFlags::IN)], None).unwrap();
    snoop.hear();
    // The card has not seen that the machine is live yet.
    assert!(!snoop.sleep());
    assert!(snoop.is_live() && snoop.sleep());
    assert!(!machine.end(), "something is watched");
    assert!(snoop.is_live());
    snoop.watch(0, false).unwrap();
    assert!(machine.end() && !snoop.is_live());
}

/// What a hostile plugin writes.
#[derive(Debug, Clone)]
enum Scribble {
    Word(Name, u64),
    Record(u64, [u8; RECORD_BYTES]),
    Tell(u64, u8),
}

fn scribble() -> impl Strategy<Value = Scribble> {
    let name = prop_oneof![
        Just(Name::Produced),
        Just(Name::Consumed),
        Just(Name::ConsumerSleeps),
        Just(Name::ProducerSleeps)
    ];
    let value = prop_oneof![any::<u64>(), 0u64..200, (0u64..8).prop_map(|records| 32 * records)];
    prop_oneof![
        (name, value).prop_map(|(name, value)| Scribble::Word(name, value)),
        (0u64..4, any::<[u8; RECORD_BYTES]>()).prop_map(|(at, record)| Scribble::Record(32 * at, record)),
        (0u64..4096, any::<u8>()).prop_map(|(address, byte)| Scribble::Tell(address, byte)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn arbitrary_writes_yield_valid_stores_or_end(
        steps in prop::collection::vec(scribble(), 1..40),
    ) {
        let (mut snoop, machine) = pair(1, 4);
        let layout = machine.memory();
        for step in steps {
            match step {
                Scribble::Word(name, value) => Words::store(&layout, name, value, Ordering::Release),
                Scribble::Record(at, record) => layout.record(at).copy_from(&record),
                // This must not wait for space, which a scribble may have taken away for good.
                Scribble::Tell(address, byte) => {
                    let at = Words::load(&layout, Name::Produced, Ordering::Relaxed);
                    layout.record(at / 32 * 32).copy_from(&Store::new(0, address, &[byte]).to_record());
                    Words::store(&layout, Name::Produced, at.wrapping_add(32), Ordering::Release);
                }
            }
            match snoop.next() {
                Ok(Some(store)) => prop_assert!(store.page() == 0 && !store.bytes().is_empty()),
                Ok(None) => drop(snoop.sleep()),
                Err(_) => {
                    prop_assert!(!snoop.is_attached());
                    break;
                }
            }
        }
    }
}

/// Returns how a session ends if the plugin claims `produced` bytes in the ring, and has written
/// this record.
fn end_of(produced: u64, record: [u8; RECORD_BYTES]) -> Ended {
    let (mut snoop, machine) = pair(1, 4);
    machine.memory().record(0).copy_from(&record);
    Words::store(&machine.memory(), Name::Produced, produced, Ordering::Release);
    let ended = snoop.next().unwrap_err();
    assert!(!snoop.is_attached());
    ended
}

#[test]
fn invalid_data_ends_session_with_reason() {
    let far = Store::new(0, PAGE, b"x").to_record();
    assert!(matches!(end_of(160, far), Ended::Ring(RingError::Position { value: 160, .. })));
    assert_eq!(end_of(33, far), Ended::Part(33));
    assert_eq!(end_of(32, far), Ended::Record(RecordError::Page { page: 1, limit: 1 }));
    assert_eq!(end_of(32, [0; RECORD_BYTES]), Ended::Record(RecordError::Width(0)));
}
