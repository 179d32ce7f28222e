//! Packets that the receiving card refuses.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::family::command::*;
use hamlyn_card_clan::{PACKET_OVERHEAD, cut};
use hamlyn_test_host::Commands;

use crate::support::*;

#[test]
fn invalid_write_changes_nothing_and_is_reported() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_WRITE);
    let windows: [(u32, ClanOpenWindow, &str); 4] = [
        (10, ClanOpenWindow { key: KEY ^ 1, aperture: 3, ..Default::default() }, "refused_aperture"),
        (11, ClanOpenWindow { key: KEY, aperture: 4, ..Default::default() }, "refused_aperture"),
        (12, ClanOpenWindow { key: KEY, aperture: 3, offset: 4096, ..Default::default() }, "refused_range"),
        (
            13,
            ClanOpenWindow { key: KEY, aperture: u32::MAX, offset: u64::MAX - 7, ..Default::default() },
            "refused_aperture",
        ),
    ];
    let before = other.everything();
    let mut counted = 0;
    for (first, body, counter) in windows {
        let length = if body.offset > PAGE { 7 } else { 8 };
        let body = ClanOpenWindow { host: 1, endpoint: 2, length, ..body };
        one.run(CLAN_COMMAND_OPEN_WINDOW, first, &body).unwrap();
        let refused = other.counter(counter);
        one.store(u64::from(first) * PAGE, 4, 0xffff_ffff);
        exchange(&mut one, &mut other);
        counted += 1;
        assert_eq!(other.counter(counter), refused + 1);
        assert_eq!(one.faults(endpoint), (counted, CLAN_FAULT_REFUSED));
    }
    assert!(other.everything() == before);
}

#[test]
fn aperture_bound_is_in_bytes() {
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    let (area, start) = other.area(101, 8);
    let body =
        ClanOpenAperture { area, key: KEY, owner: OWNER, flags: CLAN_APERTURE_WRITE, ..Default::default() };
    other.try_aperture(3, &body).unwrap();
    one.endpoint(2, CLAN_NO_EVENTS);
    one.window(5, (1, 3), PAGE, 2);
    one.store(WINDOW + 100, 1, 7);
    one.store(WINDOW + 100, 2, 0xffff);
    exchange(&mut one, &mut other);
    assert_eq!(other.bytes(start + 100, 2), [7, 0]);
    assert_eq!(other.counter("refused_range"), 1);
}

/// Words within an aperture arrive, and those behind its end do not, wherever a packet with both is
/// cut.
#[test]
fn words_beyond_the_end_do_not_affect_others() {
    for room in [PACKET_OVERHEAD + 8, PACKET_OVERHEAD + 16, PACKET_OVERHEAD + 24, usize::MAX] {
        let (mut one, mut other) = (Host::new(0), Host::new(1));
        let (area, start) = other.area(16, 0);
        let flags = CLAN_APERTURE_WRITE;
        let body = ClanOpenAperture { area, key: KEY, owner: OWNER, flags, ..Default::default() };
        other.try_aperture(3, &body).unwrap();
        let endpoint = one.endpoint(2, CLAN_NO_EVENTS);
        let local = one.aperture(1, PAGE, 0);
        one.put(local, &[7; 32]);
        one.request(2, endpoint, 0, write_request(0, 0, 32));
        let mut packets: Vec<_> = one.sent().into_iter().map(|(_, packet)| packet).collect();
        assert_eq!(packets.len(), 1);
        while let Some((first, second)) = cut(&packets[packets.len() - 1], room) {
            packets.pop();
            packets.extend([first, second]);
        }
        packets.iter().for_each(|packet| other.arrive(0, packet));
        other.rest();
        assert_eq!(other.bytes(start, 32), [[7; 16], [0; 16]].concat(), "{} packets", packets.len());
        exchange(&mut one, &mut other);
        assert_eq!(one.faults(endpoint).1, CLAN_FAULT_REFUSED);
    }
}

#[test]
fn a_closed_aperture_admits_nothing() {
    let (mut one, mut other, aperture, endpoint) = pair(CLAN_APERTURE_WRITE);
    one.store(WINDOW, 8, 1);
    let early = one.sent();
    other.run(CLAN_COMMAND_CLOSE_APERTURE, 3, &[0_u64]).unwrap();
    other.arrive(0, &early[0].1);
    exchange(&mut one, &mut other);
    assert_eq!((other.word(aperture), one.faults(endpoint)), (0, (1, CLAN_FAULT_REFUSED)));
}

#[test]
fn joined_data_is_written_before_aperture_closes() {
    let (mut one, mut other, aperture, _) = pair(CLAN_APERTURE_WRITE);
    one.store(WINDOW, 8, 5);
    for (_, packet) in one.sent() {
        other.arrive(0, &packet);
    }
    other.run(CLAN_COMMAND_CLOSE_APERTURE, 3, &[0_u64]).unwrap();
    assert_eq!(other.word(aperture), 5);
}

#[test]
fn operating_system_reaches_only_its_privileged_part() {
    let (mut one, mut other) = (Host::new(2), Host::new(1));
    let flags = CLAN_APERTURE_WRITE | CLAN_APERTURE_PRIVILEGED | CLAN_APERTURE_PARTS;
    let start = other.aperture(0, 4 * PAGE, flags);
    one.endpoint(2, CLAN_NO_EVENTS);
    one.window(5, (1, 0), 2 * PAGE, 2);
    one.store(WINDOW, 8, 1);
    exchange(&mut one, &mut other);
    assert_eq!((other.word(start + 2 * PAGE), other.counter("refused_access")), (0, 1));
    let window = ClanOpenWindow {
        key: KEY,
        length: 8192,
        host: 1,
        flags: CLAN_PRIVILEGED,
        endpoint: 2,
        ..Default::default()
    };
    let refused = one.run(CLAN_COMMAND_OPEN_WINDOW, 20, &window).unwrap_err();
    assert_eq!(refused.status, ULN_STATUS_BAD_VALUE, "its endpoint is not privileged");
    let (memory, _) = one.area(4096 + 16 * 64, 0);
    let body = ClanOpenEndpoint {
        memory,
        owner: 1,
        requests: 16,
        events: CLAN_NO_EVENTS,
        flags: CLAN_PRIVILEGED,
        ..Default::default()
    };
    one.run(CLAN_COMMAND_OPEN_ENDPOINT, 3, &body).unwrap();
    one.run(CLAN_COMMAND_OPEN_WINDOW, 20, &ClanOpenWindow { endpoint: 3, ..window }).unwrap();
    one.store(20 * PAGE, 8, 6);
    one.store(20 * PAGE + 4096, 8, 7);
    exchange(&mut one, &mut other);
    assert_eq!(other.word(start + 2 * PAGE), 6);
    assert_eq!((other.word(start + 3 * PAGE), other.counter("refused_range")), (0, 1));
}

#[test]
fn damaged_packet_changes_nothing() {
    let (mut one, mut other, ..) = pair(CLAN_APERTURE_WRITE);
    one.store(WINDOW, 8, 1);
    let good = one.sent().remove(0).1;
    let before = other.everything();
    for byte in 0..good.len() {
        let mut bad = good.clone();
        bad[byte] ^= 1;
        other.arrive(0, &bad);
        other.rest();
    }
    for length in 0..32 {
        other.arrive(0, &good[..length]);
    }
    assert!(other.everything() == before);
    assert_eq!(other.counter("bad_checksum") + other.counter("malformed"), good.len() as u64 + 32);
}

#[test]
fn invalid_bodies_are_refused_with_reason() {
    let mut host = Host::new(0);
    let (area, _) = host.area(64, 0);
    let good =
        ClanOpenAperture { area, key: KEY, owner: OWNER, flags: CLAN_APERTURE_READ, ..Default::default() };
    let (odd, _) = host.area(64, 4);
    let bad = [
        (ClanOpenAperture { flags: 32, ..good }, ULN_STATUS_BAD_VALUE, 32),
        (ClanOpenAperture { reserved: 1, ..good }, ULN_STATUS_BAD_VALUE, 1),
        (ClanOpenAperture { group: 1, ..good }, ULN_STATUS_BAD_VALUE, 1),
        (ClanOpenAperture { flags: CLAN_APERTURE_GROUP, ..good }, ULN_STATUS_BAD_VALUE, 16),
        (ClanOpenAperture { area: odd, ..good }, ULN_STATUS_BAD_ADDRESS, 4),
    ];
    for (body, status, value) in bad {
        let refused = host.try_aperture(1, &body).unwrap_err();
        assert_eq!((refused.status, refused.value), (status, value), "{body:?}");
    }
    host.try_aperture(1, &good).unwrap();
    assert_eq!(host.try_aperture(1, &good).unwrap_err().status, ULN_STATUS_IN_USE);
    assert_eq!(host.try_aperture(16, &good).unwrap_err().status, ULN_STATUS_BAD_INDEX);
}
