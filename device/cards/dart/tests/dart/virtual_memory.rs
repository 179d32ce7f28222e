//! Endpoints that are not pinned: misses, and translations that are withdrawn.

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_test_host::Commands;
use proptest::prelude::*;

use crate::support::*;

#[test]
fn known_page_causes_no_further_misses() {
    let (mut one, mut other, _) = pair(2 * PAGE, END);
    one.write_virtual(0, &pattern(32));
    for turn in 0..3 {
        one.send(1, control(DART_MAIN_WRITE, turn * 32), 0, 32);
        exchange(&mut one, &mut other);
    }
    assert_eq!((one.counter("misses"), other.counter("misses"), other.counter("executed")), (1, 1, 3));
}

#[test]
fn message_larger_than_the_tlb_is_executed() {
    let (mut one, mut other, _) = pair(16 * PAGE, END);
    one.write_virtual(0, &pattern(60000));
    one.send(1, control(DART_MAIN_WRITE_MULTIPLE, 4), 0, 60000);
    exchange(&mut one, &mut other);
    assert_eq!(other.read_virtual(4, 60000), pattern(60000));
}

#[test]
fn page_moved_during_wait_is_requested_again() {
    let (mut one, mut other, _) = pair(4 * PAGE, END);
    one.write_virtual(0, &pattern(2 * PAGE));
    other.serves = false;
    one.send(1, control(DART_MAIN_WRITE_MULTIPLE, 0), 0, 2 * PAGE);
    exchange(&mut one, &mut other);
    let misses = other.misses(1);
    assert_eq!(misses.len(), 3);
    // One page is found, and moves before the others are found.
    let page = misses[0] / PAGE;
    other.fill_pages(&misses[..1]);
    let stale = other.pages[&page].0;
    other.invalidate(page, 1);
    let fresh = other.pages(1);
    other.pages.insert(page, (fresh, true));
    other.fill_pages(&misses[1..]);
    assert_eq!((other.counter("executed"), other.misses(1)), (0, vec![misses[0]]));
    other.serves = true;
    exchange(&mut one, &mut other);
    assert_eq!(other.read_virtual(0, 2 * PAGE), pattern(2 * PAGE));
    assert_eq!(other.bytes(stale, PAGE as usize), vec![0; PAGE as usize], "nothing by what was taken back");
}

#[test]
fn read_only_page_is_requested_again_for_writes() {
    let (mut one, mut other, [state, _]) = pair(PAGE, END);
    let page = BASE / PAGE;
    let frame = other.pages[&page].0;
    other.pages.insert(page, (frame, false));
    one.send(1, control(DART_MAIN_WRITE, 0), 0, 32);
    exchange(&mut one, &mut other);
    assert_eq!((other.counter("traps_no_memory"), one.word(state + u64::from(DART_STATE_TRAPS))), (1, 1));
    // Copy on write: the driver finds another page.
    other.pages.insert(page, (frame + PAGE, true));
    one.write_virtual(0, &pattern(32));
    one.send(1, control(DART_MAIN_WRITE, 0), 0, 32);
    exchange(&mut one, &mut other);
    assert_eq!(other.read_virtual(0, 32), pattern(32));
}

#[test]
fn data_that_is_not_there_does_not_leave() {
    let (mut one, mut other, [state, _]) = pair(2 * PAGE, END);
    one.pages.remove(&(BASE / PAGE + 1));
    let word = |one: &Host, place: u32| one.word(state + u64::from(place));
    for (number, offset) in [(1, PAGE), (2, 2 * PAGE - 31), (3, u64::MAX)] {
        one.send(1, control(DART_MAIN_WRITE, 0), offset, 32);
        exchange(&mut one, &mut other);
        assert_eq!((word(&one, DART_STATE_LEFT), word(&one, DART_STATE_DROPPED)), (number, number));
        assert_eq!(word(&one, DART_STATE_DROPPED_WHY), DART_DROPPED_MEMORY);
    }
    one.send(1, control(DART_MAIN_WRITE, 0), 0, 33);
    assert_eq!(
        (word(&one, DART_STATE_DROPPED), word(&one, DART_STATE_DROPPED_WHY)),
        (4, DART_DROPPED_LENGTH)
    );
    // The next message leaves.
    one.send(1, control(DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!((other.register(1, 0), word(&one, DART_STATE_LEFT)), (1, 5));
}

/// A regression test: a read of a read-only page was treated as "page not present".
#[test]
fn readers_of_a_read_only_page_are_served() {
    let (mut one, mut other, [state, _]) = pair(PAGE, END);
    one.connection(2, 1, END);
    other.connection(2, 0, END);
    let page = BASE / PAGE;
    let frame = other.pages[&page].0;
    other.pages.insert(page, (frame, false));
    other.serves = false;
    one.send(1, control(DART_MAIN_WRITE, 0), 0, 32);
    one.send(2, control(DART_MAIN_READ, 0), 0, 0);
    exchange(&mut one, &mut other);
    other.fill(1);
    exchange(&mut one, &mut other);
    assert_eq!((other.counter("traps_no_memory"), other.counter("answers_sent")), (1, 0));
    other.fill(2);
    exchange(&mut one, &mut other);
    assert_eq!((other.counter("traps_no_memory"), other.counter("answers_sent")), (1, 1));
    assert_eq!(one.word(state + u64::from(DART_STATE_TRAPS)), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Pages move, come and go while messages append. Each message is executed once, in order,
    /// where the page is at that time.
    #[test]
    fn appended_messages_arrive_once_wherever_pages_are(
        steps in proptest::collection::vec((0..6_u8, 0..3_u64), 1..80),
    ) {
        let (mut one, mut other, _) = pair(8 * PAGE, END);
        let append = DART_MAIN_WRITE | DART_ADDRESSING_INDIRECT << DART_ADDRESSING_SHIFT
            | step(DART_FIRST_SHIFT, DART_OP_ADD, DART_SOURCE_OPERAND, DART_TARGET_I);
        let mut sent = 0_u8;
        other.serves = false;
        for (kind, which) in steps {
            match kind {
                // More messages do not fit.
                0..=2 if sent < 36 => {
                    sent += 1;
                    one.write_virtual(0, &[sent; 32]);
                    // The messages are 28 blocks apart, so that they reach many pages.
                    one.send(1, control(append, 128 * 7), 0, 32);
                    exchange(&mut one, &mut other);
                }
                3 => other.fill(1),
                4 => {
                    let page = BASE / PAGE + which;
                    other.invalidate(page, 1);
                    let (fresh, (old, writable)) = (other.pages(1), other.pages[&page]);
                    let bytes = other.bytes(old, PAGE as usize);
                    other.put(fresh, &bytes);
                    other.put(old, &[0xee; PAGE as usize]);
                    other.pages.insert(page, (fresh, writable));
                }
                _ => { exchange(&mut one, &mut other); }
            }
        }
        other.serves = true;
        other.fill(1);
        exchange(&mut one, &mut other);
        for number in 0..u64::from(sent) {
            prop_assert_eq!(other.read_virtual(number * 128 * 7, 32), vec![number as u8 + 1; 32]);
        }
        prop_assert_eq!(other.register(1, 0), u64::from(sent) * 128 * 7);
    }
}
