//! Stores through windows.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::registers::*;

use crate::support::*;

const BOTH: u32 = CLAN_APERTURE_READ | CLAN_APERTURE_WRITE;

#[test]
fn store_of_any_width_arrives_at_its_place() {
    let (mut one, mut other, aperture, _) = pair(BOTH);
    for (offset, width, value) in
        [(0, 1, 0xaa), (2, 2, 0xbbcc), (4, 4, 0xddee_ff00), (4088, 8, 0x0102_0304_0506_0708)]
    {
        one.store(WINDOW + offset, width, value);
    }
    exchange(&mut one, &mut other);
    assert_eq!(other.bytes(aperture, 8), [0xaa, 0, 0xcc, 0xbb, 0, 0xff, 0xee, 0xdd]);
    assert_eq!(other.bytes(aperture + 4088, 8), [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(other.counter("bytes_deposited"), 15);
}

#[test]
fn consecutive_stores_are_joined_unless_disabled() {
    let (mut one, mut other, aperture, _) = pair(BOTH);
    for round in 0..2_u64 {
        for word in 0..4 {
            one.store(WINDOW + word * 8, 8, word + 1 + round);
        }
        let sent = one.sent();
        assert_eq!(sent.len(), if round == 0 { 1 } else { 4 });
        for (_, packet) in sent {
            other.arrive(0, &packet);
        }
        other.rest();
        let mut words = [1_u64, 2, 3, 4].map(|word| (word + round).to_le_bytes()).concat();
        assert_eq!(other.bytes(aperture, 32), words);
        words.clear();
        one.write_register(CLAN_REG_JOIN, 4, CLAN_JOIN_ARRIVING.into());
    }
    assert_eq!((one.counter("stores_joined"), other.counter("packets_joined")), (3, 3));
}

#[test]
fn parts_of_one_word_are_not_joined() {
    let (mut one, ..) = pair(BOTH);
    one.store(WINDOW, 4, 1);
    one.store(WINDOW + 4, 4, 2);
    one.store(WINDOW + 8, 4, 3);
    assert_eq!(one.sent().len(), 2, "the second and third follow each other between two words");
}

#[test]
fn store_outside_window_is_refused_and_reported() {
    let mut one = Host::new(0);
    let endpoint = one.endpoint(2, hamlyn_abi::clan::command::CLAN_NO_EVENTS);
    one.window(5, (1, 3), 100, 2);
    one.store(WINDOW + 96, 8, 1);
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_WINDOW));
    one.store(WINDOW + PAGE, 8, 1);
    one.store(WINDOW - 8, 8, 1);
    assert_eq!((one.faults(endpoint).0, one.counter("stores_refused")), (1, 3));
    assert_eq!(one.sent().len(), 0);
}

#[test]
fn windows_do_not_overlap_and_their_endpoint_stays() {
    use hamlyn_abi::clan::command::*;
    use hamlyn_abi::family::command::*;
    let (mut one, ..) = pair(BOTH);
    let body = |length, endpoint| ClanOpenWindow {
        key: KEY,
        length,
        host: 1,
        aperture: 3,
        endpoint,
        ..Default::default()
    };
    let mut open = |first, length, endpoint| {
        one.run(CLAN_COMMAND_OPEN_WINDOW, first, &body(length, endpoint)).map_err(|refusal| refusal.status)
    };
    assert_eq!(open(4, PAGE + 1, 2), Err(ULN_STATUS_IN_USE));
    assert_eq!(open(5, 1, 2), Err(ULN_STATUS_IN_USE));
    assert_eq!(open(63, PAGE + 1, 2), Err(ULN_STATUS_BAD_LENGTH));
    assert_eq!(open(64, 1, 2), Err(ULN_STATUS_BAD_INDEX));
    assert_eq!(open(6, 1, 3), Err(ULN_STATUS_NOT_OPEN));
    assert_eq!(open(6, 58 * PAGE, 2), Ok(()));
    let close =
        |one: &mut Host, what, index| one.run(what, index, &[0_u64; 1]).map_err(|refusal| refusal.status);
    assert_eq!(close(&mut one, CLAN_COMMAND_CLOSE_ENDPOINT, 2), Err(ULN_STATUS_IN_USE));
    assert_eq!(close(&mut one, CLAN_COMMAND_CLOSE_WINDOW, 7), Err(ULN_STATUS_NOT_OPEN));
    for window in [5, 6] {
        close(&mut one, CLAN_COMMAND_CLOSE_WINDOW, window).unwrap();
    }
    close(&mut one, CLAN_COMMAND_CLOSE_ENDPOINT, 2).unwrap();
}

/// Stores to a window until a store is lost. Returns the number of stores that were accepted.
fn fill(one: &mut Host, window: u64) -> u64 {
    let (taken, lost) = (one.counter("stores_to_window"), one.counter("stores_refused"));
    while one.counter("stores_refused") == lost {
        one.store(window, 8, 1);
    }
    one.counter("stores_to_window") - taken
}

#[test]
fn stores_to_stopped_host_are_lost_and_reported() {
    let (mut one, mut other, aperture, endpoint) = pair(BOTH);
    one.write_register(CLAN_REG_JOIN, 4, 0);
    one.wire.stopped = vec![1];
    assert!(fill(&mut one, WINDOW) > 1000);
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_LOST));
    one.sent();
    one.wait(110);
    assert!(one.faults(endpoint).0 > 1000, "after the read time-out it is given up");
    assert!(fill(&mut one, WINDOW) < 10_000, "less waits for a host that was given up");
    // When the host takes packets again, the waiting packets leave, and all is as before.
    one.wire.stopped.clear();
    exchange(&mut one, &mut other);
    one.store(WINDOW + 8, 8, 2);
    exchange(&mut one, &mut other);
    assert_eq!(other.word(aperture + 8), 2);
}

#[test]
fn stopped_host_does_not_stop_the_machine() {
    let (mut one, mut other, aperture, endpoint) = pair(BOTH);
    one.window(6, (2, 3), PAGE, 2);
    one.wire.stopped = vec![2];
    let waiting = fill(&mut one, 6 * PAGE);
    assert!(one.with(|card, _, _| hamlyn_card::card::Card::takes_stores(card)));
    one.store(WINDOW, 8, 7);
    exchange(&mut one, &mut other);
    assert_eq!(other.word(aperture), 7);
    // Another endpoint may store to that host as well, but less.
    let quiet = one.endpoint(3, hamlyn_abi::clan::command::CLAN_NO_EVENTS);
    one.window(7, (2, 3), PAGE, 3);
    let (faults, more) = (one.faults(endpoint).0, fill(&mut one, 7 * PAGE));
    assert!(more > waiting / 4 && one.faults(quiet).0 == 1 && one.faults(endpoint).0 == faults);
}

/// The endpoints of one process that store to a stopped host have used up the pool.
#[test]
fn full_pool_leaves_each_endpoint_a_share() {
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    let aperture = other.aperture(3, PAGE, BOTH);
    one.wire.stopped = vec![2];
    for number in 0..30 {
        one.plain_endpoint(number);
        one.window(number, (2, 3), PAGE, number);
        fill(&mut one, u64::from(number) * PAGE);
    }
    let late = one.plain_endpoint(30);
    one.window(31, (1, 3), PAGE, 30);
    one.window(32, (2, 3), PAGE, 30);
    one.store(31 * PAGE, 8, 7);
    exchange(&mut one, &mut other);
    assert_eq!((other.word(aperture), one.faults(late).0), (7, 0));
    // The endpoint's share for the stopped host is 4 KiB of packets of 40 bytes. Another use of the
    // endpoint does not get a second share.
    assert_eq!(fill(&mut one, 32 * PAGE), 4096 / 40);
    one.tell(30, CLAN_ENDPOINT_USE, 4, 1);
    assert_eq!(fill(&mut one, 32 * PAGE), 0);
}

#[test]
fn store_to_group_arrives_at_its_members() {
    use hamlyn_abi::clan::command::*;
    let (mut one, mut other, ..) = pair(BOTH);
    let start = other.joins_group(7, 12);
    announce(&mut one, &mut other);
    one.window(9, (CLAN_GROUP_HOST + 12, 0), PAGE, 2);
    one.store(9 * PAGE + 8, 8, 0x55);
    let sent = one.sent();
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [1]);
    other.arrive(0, &sent[0].1);
    other.rest();
    assert_eq!(other.word(start + 8), 0x55);
    assert_eq!(one.load(9 * PAGE, 8).now(), Some(u64::MAX), "a group cannot be read");
    other.run(CLAN_COMMAND_CLOSE_APERTURE, 7, &[0_u64]).unwrap();
    other.arrive(0, &sent[0].1);
    assert_eq!(other.counter("refused_aperture"), 1);
    other.joins_group(8, 12);
}

#[test]
fn access_beyond_last_possible_byte_is_refused() {
    use hamlyn_abi::clan::command::*;
    let (mut one, _, _, endpoint) = pair(BOTH);
    let offset = u64::MAX - 15;
    let body = ClanOpenWindow {
        key: KEY,
        offset,
        length: 8,
        host: 1,
        aperture: 3,
        endpoint: 2,
        ..Default::default()
    };
    one.run(CLAN_COMMAND_OPEN_WINDOW, 20, &body).unwrap();
    one.store(20 * PAGE + 16, 8, 1);
    assert_eq!(one.load(20 * PAGE + 4088, 8).now(), Some(u64::MAX));
    assert_eq!(one.faults(endpoint), (2, CLAN_FAULT_WINDOW));
}

#[test]
fn host_beyond_the_switchs_ports_is_never_asked() {
    let (mut one, _, _, endpoint) = pair(BOTH);
    one.window(20, (64, 3), PAGE, 2);
    one.store(20 * PAGE, 8, 1);
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_LOST));
    assert_eq!(one.load(20 * PAGE, 8).now(), Some(u64::MAX));
    assert_eq!((one.faults(endpoint), one.sent().len()), ((2, CLAN_FAULT_TIMEOUT), 0));
}
