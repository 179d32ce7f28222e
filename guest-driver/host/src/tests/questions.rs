//! Questions whether a process listens under a name.

use hamlyn_abi::kernel::wire::{ULN_WIRE_ACCEPT, ULN_WIRE_REJECT};

use super::*;

/// Returns how a question of host 0 to host 1 ends.
fn ask(two: &mut Two, name: &[u8]) -> u32 {
    let number = two.sides[0].ask(1, name).unwrap();
    two.carry();
    let reason = two.reason(0, number);
    two.sides[0].release(number);
    reason
}

#[test]
fn question_ends_with_answer_without_request() {
    let mut two = Two::new();
    assert_eq!(ask(&mut two, b"name"), ULN_END_NOT_LISTENING);
    let listener = two.sides[1].listen(b"name", 1).unwrap();
    assert_eq!(ask(&mut two, b"name"), ULN_END_LISTENING);
    assert_eq!(ask(&mut two, b"nam"), ULN_END_NOT_LISTENING);
    assert_eq!(two.sides[1].claim(listener), Ok(None));
    // A question that was abandoned leaves nothing behind.
    let number = two.sides[0].ask(1, b"name").unwrap();
    two.sides[0].release(number);
    two.carry();
    two.sides[1].unlisten(listener);
    assert_eq!(ask(&mut two, b"name"), ULN_END_NOT_LISTENING);
    two.check_baseline();
}

#[test]
fn question_survives_restart_of_host() {
    let mut two = Two::new();
    ask(&mut two, b"name");
    let number = two.sides[0].ask(1, b"name").unwrap();
    two.collect();
    let question = two.flying.remove(0);
    two.deliver(question);
    two.sides[1].card.sent.clear();
    two.sides[1].lost(ULN_END_LAPSED);
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, number), ULN_END_NOT_LISTENING);
}

#[test]
fn absent_host_is_given_up_after_timeout() {
    let mut two = Two::new();
    let number = two.sides[0].ask(7, b"name").unwrap();
    two.pass(TIMEOUT - 250, true);
    assert_eq!(two.reason(0, number), 0);
    two.pass(1500, true);
    assert_eq!(two.reason(0, number), ULN_END_HOST_LOST);
    two.sides[0].release(number);
    two.check_baseline();
}

#[test]
fn hosts_without_a_port_are_refused_at_once() {
    let mut two = Two::new();
    let Side { system, card } = &mut two.sides[0];
    system.set_hosts(card, 2);
    for host in [2, 7, 63, 64, u32::MAX] {
        assert_eq!(system.request(card, host, b"name", b""), Err(Errno::HOSTUNREACH), "host {host}");
        assert_eq!(system.ask(card, host, b"name"), Err(Errno::HOSTUNREACH), "host {host}");
        let said = system.say(card, host, &UlnWire::default(), b"");
        assert_eq!(said, Err(Errno::HOSTUNREACH), "host {host}");
    }
    assert_eq!(ask(&mut two, b"name"), ULN_END_NOT_LISTENING);
    // The card does not know the number of ports, so the host may exist.
    let Side { system, card } = &mut two.sides[0];
    system.set_hosts(card, 0);
    let number = system.ask(card, 7, b"name").unwrap();
    system.release(card, number);
}

#[test]
fn question_for_too_long_name_is_answered() {
    let mut two = Two::new();
    // The hosts know each other.
    ask(&mut two, b"name");
    two.sides[1].listen(&[7; 64], 1).unwrap();
    let number = two.sides[0].ask(1, &[7; 64]).unwrap();
    two.collect();
    let (from, mut question) = two.flying.remove(0);
    (question.wire.private_length, question.data) = (256, vec![7; 256]);
    two.deliver((from, question));
    two.carry();
    assert_eq!(two.reason(0, number), ULN_END_NOT_LISTENING);
}

/// Returns how a question ends if its answer is changed.
fn answered_with(change: impl Fn(&mut UlnWire)) -> u32 {
    let mut two = Two::new();
    let number = two.sides[0].ask(1, b"name").unwrap();
    two.collect();
    while !two.flying.is_empty() {
        let (from, mut sent) = two.flying.remove(0);
        if sent.wire.kind == ULN_WIRE_REJECT {
            change(&mut sent.wire);
        }
        two.deliver((from, sent));
        two.collect();
    }
    two.reason(0, number)
}

#[test]
fn wrong_answers_end_the_question() {
    // An older system looks for a listener with the question's name, which is empty.
    assert_eq!(answered_with(|wire| wire.reason = ULN_END_NO_NAME), ULN_END_NO_NAME);
    // An invalid answer ends the question, and nothing else in it is trusted.
    let accepts = |wire: &mut UlnWire| (wire.kind, wire.from, wire.reason) = (ULN_WIRE_ACCEPT, 1, 0);
    assert_eq!(answered_with(accepts), ULN_END_REJECTED);
    assert_eq!(answered_with(|wire| wire.reason = 99), ULN_END_REJECTED);
}

#[test]
fn request_is_rejected_despite_question_reason() {
    let mut two = Two::new();
    let asked = two.sides[0].request(1, b"name", b"").unwrap();
    two.collect();
    while !two.flying.is_empty() {
        let (from, mut sent) = two.flying.remove(0);
        if sent.wire.kind == ULN_WIRE_REJECT {
            sent.wire.reason = ULN_END_LISTENING;
        }
        two.deliver((from, sent));
        two.collect();
    }
    assert_eq!(two.reason(0, asked), ULN_END_REJECTED);
}
