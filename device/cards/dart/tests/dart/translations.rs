//! The registers by which the driver reports where pages are, and withdraws that.

use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::registers::*;

use crate::support::*;

const FIRST: u64 = BASE / PAGE;

/// Returns a host that sends to another. The other's driver answers nothing, and its card knows
/// `pages` pages of its endpoint.
fn known(pages: u64) -> (Host, Host) {
    let (one, mut other, _) = pair(4 * PAGE, END);
    one.write_virtual(0, &pattern(32));
    other.serves = false;
    for number in FIRST..FIRST + pages {
        let frame = other.pages[&number].0 | DART_FRAME_WRITABLE;
        other.tell_frame(SPACE, number * PAGE, frame);
    }
    (one, other)
}

/// Returns whether a message to the start of a page of the endpoint is executed.
fn reaches(one: &mut Host, other: &mut Host, page: u64) -> bool {
    let before = other.counter("executed");
    one.send(1, control(DART_MAIN_WRITE, page * PAGE), 0, 32);
    exchange(one, other);
    other.counter("executed") == before + 1
}

#[test]
fn translation_reported_in_advance_is_used() {
    let (mut one, mut other) = known(1);
    assert!(reaches(&mut one, &mut other, 0));
    assert!(!reaches(&mut one, &mut other, 1));
}

#[test]
fn stores_of_other_widths_are_ignored() {
    for width in [1, 2, 4] {
        let (mut one, mut other) = known(1);
        other.store_in(DART_REG_TLB_INVALIDATE, width, u64::MAX);
        other.store_in(DART_REG_TLB_SPACE, width, u64::from(SPACE) + 1);
        other.store_in(DART_REG_TLB_PAGE, width, 0);
        // Space and page are still those that were named last.
        other.store_in(DART_REG_TLB_FILL, width, 0x10_0000 | DART_FRAME_WRITABLE);
        assert!(reaches(&mut one, &mut other, 0), "{width}");
        assert_eq!(other.read_virtual(0, 32), pattern(32));
        other.store_in(DART_REG_TLB_INVALIDATE, 8, 1);
        assert!(!reaches(&mut one, &mut other, 0), "{width}");
    }
}

#[test]
fn invalidation_handles_any_range_of_pages() {
    for (first, count, is_reached) in [
        (FIRST, 0, true),
        (FIRST, u64::MAX, false),
        (0, u64::MAX, false),
        (FIRST - 1, 1, true),
        (FIRST - 1, 2, false),
        (FIRST + 1, u64::MAX, true),
        (u64::MAX / PAGE, u64::MAX, true),
        (u64::MAX / PAGE, FIRST + 2, true),
    ] {
        let (mut one, mut other) = known(1);
        other.invalidate(first, count);
        assert_eq!(reaches(&mut one, &mut other, 0), is_reached, "{count:#x} from {first:#x} on");
    }
}

#[test]
fn address_spaces_do_not_affect_each_other() {
    let (mut one, mut other) = known(1);
    other.tell_frame(SPACE + 1, FIRST * PAGE, 0x10_0000 | DART_FRAME_WRITABLE);
    other.store_in(DART_REG_TLB_INVALIDATE, 8, u64::MAX);
    assert!(reaches(&mut one, &mut other, 0));
    other.tell_frame(SPACE + 1, (FIRST + 1) * PAGE, 0x10_0000 | DART_FRAME_WRITABLE);
    assert!(!reaches(&mut one, &mut other, 1));
    other.tell_frame(SPACE + 1, (FIRST + 1) * PAGE, 0x10_0000 | DART_FRAME_WRITABLE);
    assert_eq!((other.read_virtual(0, 32), other.counter("executed")), (pattern(32), 1));
}

#[test]
fn message_requests_only_pages_it_needs_now() {
    let (mut one, mut other) = known(0);
    one.connection(2, 1, END);
    other.connection(2, 0, END);
    let indirect = DART_MAIN_WRITE | DART_ADDRESSING_INDIRECT << DART_ADDRESSING_SHIFT;
    one.send(1, control(indirect, 0), 0, 32);
    exchange(&mut one, &mut other);
    assert_eq!(other.misses(1), [FIRST * PAGE + 1]);
    // Another connection changes the message's address. Later messages make the card look at it
    // again.
    let sets = DART_MAIN_NONE | step(DART_FIRST_SHIFT, DART_OP_MOVE, DART_SOURCE_OPERAND, DART_TARGET_I);
    for page in [2, 1, 2] {
        one.send(2, control(sets, page * PAGE), 0, 0);
        one.send(1, control(DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0), 0, 0);
        exchange(&mut one, &mut other);
        assert_eq!(other.misses(1), [(FIRST + page) * PAGE + 1]);
    }
    other.serves = true;
    other.fill(1);
    exchange(&mut one, &mut other);
    assert_eq!((other.read_virtual(2 * PAGE, 32), other.register(1, 0)), (pattern(32), 2 * PAGE + 3));
}
