//! Hosts that send nonsense, and links that lose packets.

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::fifo::DART_FIFO_LEFT;
use hamlyn_card::card::{Card, Place};
use proptest::prelude::*;

use crate::support::*;

const COUNT: u32 = DART_MAIN_NONE | DART_OP_INCREMENT << DART_FIRST_SHIFT;

fn broken(host: &Host, state: u64) -> u32 {
    host.word(state + u64::from(DART_STATE_BROKEN))
}

/// Returns a packet of a connection.
fn packet(one: &mut Host) -> Vec<u8> {
    one.send(1, control(COUNT, 0), 0, 0);
    one.sent().pop().unwrap().1
}

#[test]
fn missing_packet_breaks_only_its_connection() {
    let (mut one, mut other, [_, state]) = pair(PAGE, END);
    one.connection(2, 1, END);
    other.connection(2, 0, End { registers: (20, 2), ..END });
    let (_, second) = (packet(&mut one), packet(&mut one));
    other.arrive(0, &second);
    assert_eq!((broken(&other, state), other.register(1, 0)), (DART_BROKEN_LOST, 0));
    other.serve();
    assert_eq!((other.found.clone(), other.counter("broken")), (vec![DART_FIFO_LEFT | 1], 1));
    one.send(2, control(COUNT, 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!(other.register(2, 0), 1);
    // Messages that are stored from now on do not leave.
    other.send(1, control(COUNT, 0), 0, 0);
    assert_eq!(other.word(state + u64::from(DART_STATE_DROPPED_WHY)), DART_DROPPED_BROKEN);
    assert!(other.sent().is_empty());
}

#[test]
fn misdirected_or_damaged_packet_is_ignored() {
    let (mut one, mut other, [_, state]) = pair(PAGE, END);
    let first = packet(&mut one);
    other.arrive(2, &first);
    let mut damaged = first.clone();
    damaged[30] ^= 1;
    other.arrive(0, &damaged);
    other.arrive(0, &first[..first.len() - 1]);
    assert_eq!((other.counter("discarded"), broken(&other, state), other.register(1, 0)), (3, 0, 0));
    other.arrive(0, &first);
    assert_eq!(other.register(1, 0), 1);
}

#[test]
fn lost_link_breaks_all_connections() {
    let (mut one, mut other, [_, state]) = pair(PAGE, END);
    one.send(1, control(COUNT, 0), 0, 0);
    exchange(&mut one, &mut other);
    for place in [None, Some(Place { host: 1, ports: 4 })] {
        other.with(|card, ports, _| card.link_changed(ports, place));
    }
    assert_eq!(broken(&other, state), DART_BROKEN_LINK);
    one.send(1, control(COUNT, 0), 0, 0);
    exchange(&mut one, &mut other);
    assert_eq!((other.register(1, 0), other.counter("discarded")), (1, 1));
}

#[test]
fn exceeding_the_window_breaks_the_connection() {
    let (mut one, mut other, [_, state]) = pair(PAGE, END);
    other.serves = false;
    one.send(1, control(DART_MAIN_WRITE, 0), 0, 0);
    exchange(&mut one, &mut other);
    // A sender that takes credits that were not granted.
    let mut liar = Host::new(0);
    liar.endpoint(0, PAGE);
    liar.connection(1, 1, END);
    let mut friend = Host::new(1);
    friend.endpoint(0, PAGE);
    friend.connection(1, 0, END);
    let mut packets = Vec::new();
    for _ in 0..2100 {
        packets.push(packet(&mut liar));
        let said = packets[packets.len() - 1].clone();
        friend.arrive(0, &said);
        exchange(&mut liar, &mut friend);
    }
    let before = broken(&other, state);
    packets[1..].iter().for_each(|packet| other.arrive(0, packet));
    assert_eq!((before, broken(&other, state)), (0, DART_BROKEN_PEER));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Memory and registers are unchanged after any packet, unless the other host has sent that
    /// packet.
    #[test]
    fn damaged_packets_change_nothing(
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
        cut in any::<prop::sample::Index>(),
        source in 0..3_u16,
    ) {
        let (mut one, mut other, _) = pair(PAGE, END);
        one.write_virtual(0, &pattern(64));
        one.send(1, control(DART_MAIN_WRITE_MULTIPLE | DART_OP_INCREMENT << DART_FIRST_SHIFT, 0), 0, 64);
        one.sent();
        one.serve();
        let mut bytes = one.sent().pop().unwrap().1;
        let sound = bytes.clone();
        bytes[at.index(sound.len())] = value;
        bytes.truncate(sound.len() - cut.index(sound.len()) % 3);
        other.arrive(source, &bytes);
        other.serve();
        let is_sound = source == 0 && bytes == sound;
        prop_assert_eq!(other.register(1, 0), u64::from(is_sound));
        prop_assert_eq!(other.read_virtual(0, 64) == pattern(64), is_sound);
    }
}
