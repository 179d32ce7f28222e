//! Loads through windows: remote reads.

use std::time::Duration;

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::registers::*;
use hamlyn_card::card::{Card, Reading};
use hamlyn_test_host::Commands;

use crate::support::*;

/// The kind of a packet that requests a read.
const READ: u8 = 2;
const BOTH: u32 = CLAN_APERTURE_READ | CLAN_APERTURE_WRITE;

fn token(reading: Reading) -> u64 {
    match reading {
        Reading::Later(token) => token,
        Reading::Now(value) => panic!("{value:#x} at once"),
    }
}

fn loads_are_answered(one: &mut Host, other: &mut Host, aperture: u64) {
    other.put(aperture, &[7]);
    let asked = token(one.load(WINDOW, 1));
    exchange(one, other);
    assert_eq!(one.loaded(), Some((asked, 7)));
}

#[test]
fn load_sees_the_stores_before_it() {
    let (mut one, mut other, aperture, _) = pair(BOTH);
    other.put(aperture + 16, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let first = token(one.load(WINDOW + 16, 8));
    one.store(WINDOW + 18, 1, 0xff);
    let second = token(one.load(WINDOW + 18, 2));
    exchange(&mut one, &mut other);
    assert_eq!(one.loaded(), Some((first, 0x0807_0605_0403_0201)));
    assert_eq!(one.loaded(), Some((second, 0x04ff)));
    assert_eq!(one.loaded(), None);
}

#[test]
fn refused_load_reads_as_ones_and_faults() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_WRITE);
    let asked = token(one.load(WINDOW, 4));
    exchange(&mut one, &mut other);
    assert_eq!(one.loaded(), Some((asked, u64::MAX)));
    assert_eq!((one.faults(endpoint), other.counter("refused_access")), ((1, CLAN_FAULT_REFUSED), 1));
    assert_eq!(one.take_bits(endpoint), 1 << CLAN_BIT_FAULT);
}

#[test]
fn load_from_silent_host_times_out() {
    let (mut one, _, _, endpoint) = pair(BOTH);
    let asked = token(one.load(WINDOW, 8));
    assert_eq!(one.sent().len(), 1);
    let alarm = one.card.alarm().unwrap();
    assert!(alarm <= Duration::from_millis(100), "{alarm:?}");
    one.wait(99);
    assert_eq!(one.loaded(), None);
    one.wait(1);
    assert_eq!(one.loaded(), Some((asked, u64::MAX)));
    assert_eq!(one.faults(endpoint).1, CLAN_FAULT_TIMEOUT);
}

#[test]
fn read_with_earliest_deadline_ends_first() {
    let (mut one, _, _, endpoint) = pair(BOTH);
    let early = token(one.load(WINDOW, 8));
    one.write_register(CLAN_REG_READ_TIMEOUT, 4, 20);
    let late = token(one.load(WINDOW + 8, 8));
    one.sent();
    assert_eq!(one.card.alarm(), Some(Duration::from_millis(20)));
    one.wait(20);
    assert_eq!((one.loaded(), one.loaded()), (Some((late, u64::MAX)), None));
    one.wait(80);
    assert_eq!((one.loaded(), one.faults(endpoint).0), (Some((early, u64::MAX)), 2));
}

#[test]
fn unexpected_answer_is_discarded() {
    let (mut one, mut other, ..) = pair(BOTH);
    one.load(WINDOW, 8);
    let question = one.sent().remove(0).1;
    other.arrive(0, &question);
    let answer = other.sent().remove(0).1;
    one.arrive(7, &answer);
    assert_eq!((one.loaded(), one.counter("discarded")), (None, 1), "another host's");
    one.arrive(1, &answer);
    assert!(one.loaded().is_some());
    one.arrive(1, &answer);
    assert_eq!((one.loaded(), one.counter("discarded")), (None, 2));
}

#[test]
fn loads_end_with_their_window_or_link() {
    let (mut one, ..) = pair(BOTH);
    let asked = token(one.load(WINDOW, 8));
    one.run(CLAN_COMMAND_CLOSE_WINDOW, 5, &[0_u64]).unwrap();
    assert_eq!(one.loaded(), Some((asked, u64::MAX)));
    one.window(5, (1, 3), PAGE, 2);
    let asked = token(one.load(WINDOW, 8));
    one.with(|card, ports, _| card.link_changed(ports, None));
    assert_eq!(one.loaded(), Some((asked, u64::MAX)));
    assert_eq!(one.load(WINDOW, 8), Reading::Now(u64::MAX), "there is no link");
}

#[test]
fn dead_host_costs_only_one_time_out() {
    let (mut one, mut other, aperture, endpoint) = pair(BOTH);
    one.store(WINDOW, 8, 1);
    one.sent();
    one.wait(50);
    one.sent();
    one.wait(100);
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_TIMEOUT));
    for faults in 2..5 {
        assert_eq!(one.load(WINDOW, 8), Reading::Now(u64::MAX), "at once");
        assert_eq!(one.faults(endpoint), (faults, CLAN_FAULT_TIMEOUT));
    }
    // The host is asked whether it is there, and answers.
    one.wait(0);
    exchange(&mut one, &mut other);
    loads_are_answered(&mut one, &mut other, aperture);
}

/// The host answers PROBEs, so it is not given up.
#[test]
fn host_that_answers_no_load_rarely_stops_processor() {
    let (mut one, mut other, aperture, endpoint) = pair(BOTH);
    let mut stopped = 0;
    for _ in 0..600 {
        match one.load(WINDOW, 8) {
            Reading::Later(_) => stopped += 1,
            Reading::Now(value) => assert_eq!(value, u64::MAX),
        }
        one.store(WINDOW, 8, 1);
        for (_, packet) in one.sent().into_iter().filter(|(_, packet)| packet[0] != READ) {
            other.arrive(0, &packet);
        }
        for (_, packet) in other.sent() {
            one.arrive(1, &packet);
        }
        one.wait(10);
        while one.loaded().is_some() {}
    }
    // For 100 ms in each 2.1 seconds.
    assert!((20..40).contains(&stopped), "{stopped} of 600");
    assert_eq!(one.faults(endpoint).1, CLAN_FAULT_TIMEOUT);
    one.wait(2000);
    loads_are_answered(&mut one, &mut other, aperture);
}

#[test]
fn late_answer_enables_loads_again() {
    let (mut one, mut other, ..) = pair(BOTH);
    for refuses in [false, true] {
        let first = token(one.load(WINDOW, 8));
        let question = one.sent().remove(0).1;
        one.wait(100);
        assert_eq!(one.loaded(), Some((first, u64::MAX)));
        assert_eq!(one.load(WINDOW, 8), Reading::Now(u64::MAX));
        if refuses {
            other.run(CLAN_COMMAND_CLOSE_APERTURE, 3, &[0_u64]).unwrap();
        }
        other.arrive(0, &question);
        for (_, packet) in other.sent() {
            one.arrive(1, &packet);
        }
        let second = token(one.load(WINDOW, 8));
        exchange(&mut one, &mut other);
        assert_eq!(one.loaded().map(|(number, _)| number), Some(second));
    }
}
