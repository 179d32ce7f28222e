use super::*;
use hamlyn_door::{Porter, Porters};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::write;
use rustix::pipe::pipe;
use std::sync::LazyLock;

const MSIX: u32 = MSIX_TYPE;

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

/// Keeps the descriptors that the client of each test passes.
static PORTER: LazyLock<Porter> = LazyLock::new(|| Porters::new(1).hire().unwrap());

fn kept(event: &OwnedFd) -> Kept<OwnedFd> {
    PORTER.keep(event.try_clone().unwrap())
}

/// Returns how often an eventfd was signalled since the last call.
fn signals(eventfd: &OwnedFd) -> u64 {
    while !PORTER.is_idle() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let mut count = [0; 8];
    match rustix::io::read(eventfd, &mut count) {
        Ok(_) => u64::from_ne_bytes(count),
        Err(_) => 0,
    }
}

/// Returns four vectors with one eventfd each, and bus mastering enabled.
fn set_up() -> (Interrupts, Vec<OwnedFd>) {
    let mut interrupts = Interrupts::new(4);
    interrupts.set_bus_master(true);
    let events: Vec<_> = (0..4).map(|_| event()).collect();
    let copies = events.iter().map(kept).collect();
    interrupts.set(MSIX, DATA_EVENTFD | ACTION_TRIGGER, (0, 4), &[], copies).unwrap();
    (interrupts, events)
}

fn all_signals(events: &[OwnedFd]) -> Vec<u64> {
    events.iter().map(signals).collect()
}

#[test]
fn each_vector_has_its_eventfd() {
    let (interrupts, events) = set_up();
    interrupts.interrupt(2).unwrap();
    assert_eq!(all_signals(&events), [0, 0, 1, 0]);
    assert_eq!(interrupts.delivered(), 1);
    assert_eq!(interrupts.interrupt(4), Err(VectorError { vector: 4, limit: 4 }));
}

#[test]
fn undeliverable_interrupts_stay_pending() {
    let (mut interrupts, events) = set_up();
    interrupts.set_bus_master(false);
    interrupts.interrupt(0).unwrap();
    interrupts.set_function_mask(true);
    interrupts.set(MSIX, DATA_NONE | ACTION_MASK, (0, 1), &[], vec![]).unwrap();
    interrupts.set(MSIX, DATA_EVENTFD | ACTION_TRIGGER, (0, 1), &[], vec![]).unwrap();
    interrupts.interrupt(0).unwrap();
    assert_eq!(interrupts.pending_word(0), 1);
    interrupts.set_bus_master(true);
    interrupts.set_function_mask(false);
    interrupts.set(MSIX, DATA_NONE | ACTION_UNMASK, (0, 1), &[], vec![]).unwrap();
    assert_eq!((all_signals(&events), interrupts.pending_word(0)), (vec![0; 4], 1));
    let again = vec![kept(&events[0])];
    interrupts.set(MSIX, DATA_EVENTFD | ACTION_TRIGGER, (0, 1), &[], again).unwrap();
    assert_eq!((all_signals(&events), interrupts.pending_word(0)), (vec![1, 0, 0, 0], 0));
}

#[test]
fn each_obstacle_alone_defers_an_interrupt() {
    let (mut interrupts, events) = set_up();
    interrupts.set_function_mask(true);
    interrupts.interrupt(1).unwrap();
    assert_eq!(all_signals(&events), [0; 4]);
    interrupts.set_function_mask(false);
    assert_eq!(all_signals(&events), [0, 1, 0, 0]);
    interrupts.set_bus_master(false);
    interrupts.interrupt(1).unwrap();
    assert_eq!(all_signals(&events), [0; 4]);
    interrupts.set_bus_master(true);
    assert_eq!(all_signals(&events), [0, 1, 0, 0]);
    interrupts.set(MSIX, DATA_BOOL | ACTION_MASK, (0, 4), &[0, 1, 0, 1], vec![]).unwrap();
    (0..4).for_each(|vector| interrupts.interrupt(vector).unwrap());
    assert_eq!((all_signals(&events), interrupts.pending_word(0)), (vec![1, 0, 1, 0], 0b1010));
    interrupts.set(MSIX, DATA_BOOL | ACTION_UNMASK, (2, 2), &[1, 1], vec![]).unwrap();
    assert_eq!((all_signals(&events), interrupts.pending_word(0)), (vec![0, 0, 0, 1], 0b0010));
}

#[test]
fn a_client_can_trigger_its_own_eventfds() {
    let (mut interrupts, events) = set_up();
    interrupts.set_bus_master(false);
    interrupts.set(MSIX, DATA_NONE | ACTION_TRIGGER, (1, 2), &[], vec![]).unwrap();
    assert_eq!(all_signals(&events), [0, 1, 1, 0]);
    interrupts.set(MSIX, DATA_BOOL | ACTION_TRIGGER, (0, 3), &[1, 0, 7], vec![]).unwrap();
    assert_eq!(all_signals(&events), [1, 0, 1, 0]);
}

#[test]
fn masking_signals_the_assigned_eventfds() {
    let (mut interrupts, _events) = set_up();
    let (masked, unmasked) = (event(), event());
    let copy = |event: &OwnedFd| vec![kept(event)];
    interrupts.set(MSIX, DATA_EVENTFD | ACTION_MASK, (3, 1), &[], copy(&masked)).unwrap();
    interrupts.set(MSIX, DATA_EVENTFD | ACTION_UNMASK, (3, 1), &[], copy(&unmasked)).unwrap();
    interrupts.set(MSIX, DATA_NONE | ACTION_MASK, (3, 1), &[], vec![]).unwrap();
    assert_eq!((signals(&masked), signals(&unmasked)), (1, 0));
    interrupts.set(MSIX, DATA_NONE | ACTION_UNMASK, (3, 1), &[], vec![]).unwrap();
    assert_eq!((signals(&masked), signals(&unmasked)), (0, 1));
}

#[test]
fn reset_clears_masks_and_pending_but_keeps_eventfds() {
    let (mut interrupts, events) = set_up();
    interrupts.set(MSIX, DATA_NONE | ACTION_MASK, (0, 4), &[], vec![]).unwrap();
    interrupts.interrupt(0).unwrap();
    interrupts.reset();
    assert_eq!((all_signals(&events), interrupts.pending_word(0)), (vec![0; 4], 0));
    interrupts.interrupt(1).unwrap();
    assert_eq!(all_signals(&events), [0, 1, 0, 0]);
    interrupts.set(MSIX, DATA_NONE | ACTION_TRIGGER, (0, 0), &[], vec![]).unwrap();
    interrupts.interrupt(1).unwrap();
    assert_eq!((all_signals(&events), interrupts.pending_word(0)), (vec![0; 4], 0b10));
}

#[test]
fn wrong_requests_change_nothing() {
    let (mut interrupts, events) = set_up();
    let eventfd = DATA_EVENTFD | ACTION_TRIGGER;
    let mut refuse =
        |index, flags, range, data: &[u8], fds| interrupts.set(index, flags, range, data, fds).unwrap_err();
    use SetIrqsError::{Booleans, Eventfds, Flags, NotEventfd, Range};
    assert_eq!(refuse(MSIX, eventfd, (2, 3), &[], vec![]), Range { index: 2, start: 2, count: 3, limit: 4 });
    assert!(matches!(refuse(MSIX, eventfd, (u32::MAX, 2), &[], vec![]), Range { .. }));
    assert!(matches!(refuse(0, eventfd, (0, 1), &[], vec![kept(&event())]), Range { limit: 0, .. }));
    assert!(matches!(refuse(5, DATA_NONE | ACTION_TRIGGER, (0, 0), &[], vec![]), Range { .. }));
    for flags in
        [0, DATA_NONE, ACTION_TRIGGER, DATA_NONE | DATA_BOOL | ACTION_MASK, 0x38 | DATA_NONE, eventfd | 64]
    {
        assert_eq!(refuse(MSIX, flags, (0, 1), &[1], vec![]), Flags(flags));
    }
    assert_eq!(refuse(MSIX, eventfd, (0, 0), &[], vec![]), Flags(eventfd));
    assert!(matches!(refuse(MSIX, DATA_NONE | ACTION_TRIGGER, (1, 0), &[], vec![]), Flags(_)));
    assert_eq!(refuse(MSIX, DATA_BOOL | ACTION_MASK, (0, 4), &[1; 3], vec![]), Booleans { got: 3, count: 4 });
    assert_eq!(
        refuse(MSIX, eventfd, (0, 3), &[], vec![kept(&event()), kept(&event())]),
        Eventfds { got: 2, count: 3 }
    );
    let (_reader, writer) = pipe().unwrap();
    assert_eq!(refuse(MSIX, eventfd, (0, 2), &[], vec![kept(&event()), kept(&writer)]), NotEventfd(1));
    (0..4).for_each(|vector| interrupts.interrupt(vector).unwrap());
    assert_eq!(all_signals(&events), [1; 4]);
}

#[test]
fn full_eventfd_does_not_block() {
    let (interrupts, events) = set_up();
    write(&events[0], &(u64::MAX - 1).to_ne_bytes()).unwrap();
    interrupts.interrupt(0).unwrap();
    assert_eq!(signals(&events[0]), u64::MAX - 1);
}
