//! Power-on and dead-host states (section 2.8).

use std::time::Duration;

use crate::support::{Host, Two, request};
use hamlyn_abi::family::control::*;
use hamlyn_abi::hamlyn::command::HAMLYN_MODE_NORMAL;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::card::Card;
use hamlyn_card_hamlyn::HamlynOptions;

const SECOND: Duration = Duration::from_secs(1);

fn two() -> Two {
    Two::new(HamlynOptions { handshake_ms: 3000, ..HamlynOptions::default() }, HAMLYN_MODE_NORMAL)
}

fn send(two: &mut Two) {
    two.sender.post(0, request(0, 4), b"data");
    two.carry();
}

#[test]
fn card_discards_after_handshake_lapse() {
    let mut two = two();
    assert_eq!(two.receiver.read_register(ULN_REG_HANDSHAKE_TIMEOUT, 4), 3000);
    for _ in 0..5 {
        two.receiver.pass(2 * SECOND);
        two.receiver.write_register(ULN_REG_HANDSHAKE, 4, 1);
    }
    two.receiver.pass(3 * SECOND - Duration::from_millis(1));
    send(&mut two);
    assert!(two.receiver.receive(0).is_some(), "a host that keeps the handshake receives");
    assert_eq!(two.receiver.counter(Statistic::HandshakeLapses), 0);

    two.receiver.pass(Duration::from_millis(1));
    assert_eq!(two.receiver.read_register(ULN_REG_CONTROL, 4), 0);
    let before = two.receiver.memory_image();
    send(&mut two);
    assert!(two.receiver.memory_image() == before, "nothing is written to a host that has stopped");
    assert_eq!(two.receiver.counter(Statistic::Discarded), 1);
    assert_eq!(two.receiver.counter(Statistic::HandshakeLapses), 1);

    // A late handshake does not enable the card again: the driver must learn that something was
    // lost.
    two.receiver.write_register(ULN_REG_HANDSHAKE, 4, 1);
    send(&mut two);
    assert_eq!(two.receiver.counter(Statistic::Discarded), 2);
    two.receiver.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_ENABLE.into());
    send(&mut two);
    assert!(two.receiver.receive(0).is_some(), "its slots are still open");
    two.receiver.pass(3 * SECOND);
    assert_eq!(two.receiver.counter(Statistic::HandshakeLapses), 2);
}

#[test]
fn timer_runs_only_while_card_is_enabled() {
    let mut two = two();
    two.receiver.write_register(ULN_REG_CONTROL, 4, 0);
    assert_eq!(two.receiver.card.alarm(), None);
    two.receiver.write_register(ULN_REG_HANDSHAKE, 4, 1);
    assert_eq!(two.receiver.card.alarm(), None);
    two.receiver.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_ENABLE.into());
    assert_eq!(two.receiver.card.alarm(), Some(3 * SECOND));
    two.receiver.with_card(|card, ports, _| card.reset(ports));
    assert_eq!(two.receiver.card.alarm(), None);
}

#[test]
fn card_without_timer_never_lapses() {
    let mut host = Host::new(0, HamlynOptions { handshake_ms: 0, ..HamlynOptions::default() });
    assert_eq!(host.card.alarm(), None);
    host.pass(1000 * SECOND);
    host.with_card(|card, ports, _| card.tick(ports));
    assert_eq!(host.read_register(ULN_REG_CONTROL, 4), u64::from(ULN_CONTROL_ENABLE));
}

#[test]
fn early_tick_changes_nothing() {
    let mut two = two();
    two.receiver.clock.0.set(SECOND);
    two.receiver.with_card(|card, ports, _| card.tick(ports));
    assert_eq!(two.receiver.card.alarm(), Some(3 * SECOND));
    assert_eq!(two.receiver.read_register(ULN_REG_CONTROL, 4), u64::from(ULN_CONTROL_ENABLE));
}
