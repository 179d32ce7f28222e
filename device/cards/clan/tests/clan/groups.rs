//! Groups: a copy for each member, in order with all other packets to that member. No sender waits
//! for a member that takes nothing.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::CLAN_NO_EVENTS;
use hamlyn_abi::clan::dma::{CLAN_DMA_DONE, CLAN_DMA_TIMEOUT, ClanRequest};
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::registers::CLAN_REG_JOIN;
use hamlyn_abi::family::control::{ULN_CONTROL_ENABLE, ULN_REG_CONTROL};
use hamlyn_card::card::Card;

use crate::support::*;

const GROUP: u32 = 3;

/// Returns three hosts. The first has a window onto host 1 and one onto a group of hosts 1 and 2.
/// Also returns the addresses of host 1's aperture, the members' memory and the endpoint's memory.
fn trio() -> ([Host; 3], u64, [u64; 2], u64) {
    let (mut one, mut other, aperture, endpoint) = pair(CLAN_APERTURE_WRITE);
    let mut third = Host::new(2);
    let members = [other.joins_group(7, GROUP), third.joins_group(7, GROUP)];
    announce(&mut one, &mut other);
    announce(&mut one, &mut third);
    one.window(6, (CLAN_GROUP_HOST + GROUP, 0), PAGE, 2);
    one.write_register(CLAN_REG_JOIN, 4, 0);
    ([one, other, third], aperture, members, endpoint)
}

/// Returns the destinations of writes and announcements.
fn hosts(sent: &[(u16, Vec<u8>)]) -> Vec<u16> {
    sent.iter().filter(|(_, packet)| [1, 7].contains(&packet[0])).map(|(to, _)| *to).collect()
}

#[test]
fn group_write_keeps_its_order_at_members() {
    let ([mut one, mut other, _], aperture, [member, _], _) = trio();
    // There are not enough credits of host 1 for all writes before the write to the group.
    for n in 1..=100 {
        one.store(WINDOW, 8, n);
    }
    one.store(6 * PAGE, 8, 1);
    one.store(WINDOW, 8, 101);
    let mut flag = 0;
    for _ in 0..4 {
        for (to, packet) in one.sent() {
            if to != 1 {
                continue;
            }
            other.arrive(0, &packet);
            other.rest();
            if flag == 0 && other.word(member) == 1 {
                flag = other.word(aperture);
            }
        }
        for (_, packet) in other.sent() {
            one.arrive(1, &packet);
        }
    }
    assert_eq!((flag, other.word(aperture)), (100, 101));
}

#[test]
fn member_that_takes_nothing_costs_only_itself() {
    let ([mut one, mut other, _], aperture, [member, _], endpoint) = trio();
    one.wire.stopped = vec![2];
    for n in 1..=50 {
        one.store(6 * PAGE, 8, n);
        one.store(WINDOW, 8, n);
    }
    exchange(&mut one, &mut other);
    assert_eq!((other.word(member), other.word(aperture), one.faults(endpoint).0), (50, 50, 0));
    one.wait(100);
    assert_eq!(one.faults(endpoint), (50, CLAN_FAULT_LOST));
    let at = |place: u32| one.word(endpoint + u64::from(place));
    assert_eq!((at(CLAN_STATE_FAULT_HOST), at(CLAN_STATE_FAULT_APERTURE)), (2, GROUP));
    // The host is not a member from now on.
    one.store(6 * PAGE, 8, 51);
    let sent = one.sent();
    assert_eq!(hosts(&sent), [1]);
}

#[test]
fn returning_member_is_a_member_again() {
    let ([mut one, _, mut third], _, [_, member], _) = trio();
    one.wire.stopped = vec![2];
    one.store(6 * PAGE, 8, 1);
    one.sent();
    one.wait(100);
    one.wire.stopped.clear();
    one.store(6 * PAGE, 8, 2);
    assert_eq!(hosts(&one.sent()), [1]);
    // The host sends something of its own.
    third.endpoint(1, CLAN_NO_EVENTS);
    third.window(1, (0, 9), PAGE, 1);
    third.store(PAGE, 8, 1);
    exchange(&mut one, &mut third);
    one.store(6 * PAGE, 8, 3);
    exchange(&mut one, &mut third);
    assert_eq!(third.word(member), 3);
}

/// A member takes a packet now and then. A request to the group waits for it for a while, and then
/// proceeds.
#[test]
fn group_request_proceeds_without_slow_member() {
    let ([mut one, mut other, _], _, [member, _], endpoint) = trio();
    let source = one.aperture(9, PAGE, 0);
    let to = ClanRequest {
        host: CLAN_GROUP_HOST + GROUP,
        aperture: 0,
        local_aperture: 9,
        ..write_request(0, 0, PAGE)
    };
    one.wire.stopped = vec![2];
    let (mut requests, mut milliseconds) = (0, 0);
    while requests < 20 && milliseconds < 2000 {
        if one.done(endpoint) == requests {
            requests += 1;
            one.put_word(source, requests);
            one.request(2, endpoint, requests - 1, to);
        }
        if milliseconds % 90 == 0 {
            // The member takes one packet.
            one.wire.stopped.clear();
            one.transmit();
            one.wire.stopped = vec![2];
        }
        exchange(&mut one, &mut other);
        one.wait(1);
        milliseconds += 1;
    }
    exchange(&mut one, &mut other);
    assert_eq!(
        (one.result(endpoint, 15), other.word(member)),
        (CLAN_DMA_DONE, 20),
        "after {milliseconds} ms"
    );
    assert!(one.faults(endpoint).0 > 0 && one.counter("copies_lost") > 0);
}

#[test]
fn member_has_credits_of_its_own() {
    let ([mut one, mut other, mut third], _, [first, second], _) = trio();
    for n in 1..=100 {
        one.store(6 * PAGE, 8, n);
    }
    let sent = one.sent();
    let writes = |host| sent.iter().filter(|(to, packet)| *to == host && packet[0] == 1).count();
    assert_eq!((writes(1), writes(2)), (64, 64));
    for (to, packet) in &sent {
        if *to == 1 {
            other.arrive(0, packet);
        }
    }
    exchange(&mut one, &mut other);
    exchange(&mut one, &mut third);
    assert_eq!(other.word(first), 100);
    assert!(third.word(second) < 100);
}

#[test]
fn loss_of_a_copy_is_reported() {
    let ([mut one, mut other, mut third], _, _, endpoint) = trio();
    one.store(6 * PAGE, 8, 1);
    for (to, packet) in one.sent() {
        if to == 1 {
            other.arrive(0, &packet);
        }
    }
    exchange(&mut one, &mut other);
    one.wait(50);
    for (to, packet) in one.sent() {
        let at = if to == 1 { &mut other } else { &mut third };
        at.arrive(0, &packet);
    }
    exchange(&mut one, &mut third);
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_LOST));
    assert_eq!(one.word(endpoint + u64::from(CLAN_STATE_FAULT_HOST)), 2);
}

#[test]
fn sending_member_gets_its_own_write() {
    let mut one = Host::new(0);
    let member = one.joins_group(7, GROUP);
    one.sent();
    one.endpoint(2, CLAN_NO_EVENTS);
    one.window(6, (CLAN_GROUP_HOST + GROUP, 0), PAGE, 2);
    one.store(6 * PAGE, 8, 9);
    let sent = one.sent();
    assert_eq!(hosts(&sent), [0]);
    one.arrive(0, &sent[0].1);
    one.rest();
    assert_eq!(one.word(member), 9);
}

#[test]
fn new_card_asks_for_group_members() {
    let mut member = Host::new(1);
    member.joins_group(7, GROUP);
    member.sent();
    let mut late = hamlyn_test_host::Host::new(0, hamlyn_card_clan::ClanCard::new(OPTIONS)).unwrap();
    late.with_card(|card, ports, wire| card.transmit(ports, wire));
    let asked = std::mem::take(&mut late.wire.sent);
    member.arrive(0, &asked[0].1);
    assert_eq!(hosts(&member.sent()), [0]);
}

#[test]
fn enabling_an_enabled_card_announces_nothing() {
    let mut host = Host::new(0);
    host.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_ENABLE.into());
    assert!(host.sent().is_empty());
    host.write_register(ULN_REG_CONTROL, 4, 0);
    host.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_ENABLE.into());
    assert_eq!(host.sent().iter().map(|(to, packet)| (*to, packet[0])).collect::<Vec<_>>(), [ALL_CARDS]);
}

#[test]
fn request_to_a_dead_host_ends() {
    let ([mut one, ..], _, _, endpoint) = trio();
    one.aperture(9, PAGE, 0);
    one.wire.stopped = vec![1];
    one.store(WINDOW, 8, 1);
    one.sent();
    one.wait(100);
    for n in 0..5 {
        one.request(2, endpoint, n, ClanRequest { local_aperture: 9, ..write_request(0, 0, 8) });
    }
    one.sent();
    one.wait(100);
    one.sent();
    assert_eq!(one.result(endpoint, 0), CLAN_DMA_TIMEOUT);
}
