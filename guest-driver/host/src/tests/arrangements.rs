//! Messages between the cards' own parts of two drivers.

use hamlyn_abi::kernel::wire::ULN_WIRE_CARD;

use super::*;

#[test]
fn messages_arrive_once_in_order_despite_losses() {
    let mut two = Two::new();
    let said: Vec<_> =
        (0..20_u32).map(|number| ([number, 7, !number], vec![number as u8; number as usize * 12])).collect();
    for (words, data) in &said {
        two.sides[0].say(1, *words, data).unwrap();
    }
    two.sides[1].say(0, [1, 2, 3], b"meanwhile").unwrap();
    // The first transmission of each is lost until something is acknowledged.
    two.pass(TICK, false);
    two.pass(4 * TICK, true);
    let heard: Vec<_> =
        two.sides[1].card.said.iter().map(|(from, words, data)| (*from, *words, data.clone())).collect();
    assert_eq!(heard, said.into_iter().map(|(words, data)| (0, words, data)).collect::<Vec<_>>());
    assert_eq!(two.sides[0].card.said, [(1, [1, 2, 3], b"meanwhile".to_vec())]);
    two.check_baseline();
}

#[test]
fn only_needed_silent_host_is_reported_lost() {
    let mut two = Two::new();
    two.sides[0].say(1, [1, 0, 0], b"").unwrap();
    two.carry();
    two.sides[0].arrange(1);
    two.pass(3 * TIMEOUT, true);
    assert_eq!(two.sides[0].card.lost, [0; 0], "it lives");
    two.pass(2 * TIMEOUT, false);
    assert_eq!((&two.sides[0].card.lost[..], &two.sides[1].card.lost[..]), (&[1][..], &[][..]));
    two.pass(2 * TIMEOUT, false);
    assert_eq!(two.sides[0].card.lost, [1], "once: nothing is arranged any more");
    two.check_baseline();
}

#[test]
fn restarted_host_is_reported_lost() {
    let mut two = Two::new();
    two.sides[0].say(1, [1, 0, 0], b"").unwrap();
    two.carry();
    for (host, other) in [(0, 1), (1, 0)] {
        two.sides[host].arrange(other);
    }
    two.sides[1].stop();
    assert!(two.sides[1].card.lost.contains(&0));
    two.sides[1].open();
    // Its messages are now from a new incarnation.
    two.sides[1].say(0, [2, 0, 0], b"").unwrap();
    two.pass(4 * TICK, true);
    assert_eq!(two.sides[0].card.lost, [1]);
    assert_eq!(two.sides[0].card.said, [(1, [2, 0, 0], vec![])]);
    two.pass(TIMEOUT, true);
    two.check_baseline();
}

#[test]
fn messages_waiting_for_stuck_host_are_bounded() {
    let mut two = Two::new();
    let fits = (0..1000_u32).take_while(|number| two.sides[0].say(1, [*number, 0, 0], b"x").is_ok()).count();
    assert_eq!((fits, two.sides[0].say(1, [0; 3], b"")), (256, Err(Errno::NOBUFS)));
    two.pass(TIMEOUT + 4 * TICK, false);
    assert!(two.sides[0].card.lost.contains(&1), "what was not said is told of");
    two.pass(TIMEOUT, true);
    assert_eq!(two.sides[1].card.said, []);
    two.check_baseline();
}

#[test]
fn connection_requests_do_not_limit_card_messages() {
    let mut two = Two::new();
    let asked: Vec<_> = (0..300).map(|_| two.sides[0].request(1, b"name", b"").unwrap()).collect();
    let fits = (0..1000).take_while(|_| two.sides[0].say(1, [1, 0, 0], b"").is_ok()).count();
    assert_eq!(fits, 256);
    two.pass(2 * TIMEOUT, true);
    assert_eq!(two.sides[1].card.said.len(), 256);
    assert_eq!(two.sides[0].say(1, [2, 0, 0], b""), Ok(()), "there is room again");
    two.pass(TICK, true);
    asked.into_iter().for_each(|number| two.sides[0].release(number));
    two.check_baseline();
}

#[test]
fn impossible_messages_are_refused() {
    let mut side = Side::new(1, 0);
    assert_eq!(side.say(64, [0; 3], b""), Err(Errno::HOSTUNREACH));
    assert_eq!(side.say(1, [0; 3], &[0; 257]), Err(Errno::MSGSIZE));
    side.card.memory = Some(0);
    assert_eq!(side.say(1, [0; 3], b""), Err(Errno::NOMEM));
    side.stop();
    assert_eq!(side.say(1, [0; 3], b""), Err(Errno::OPNOTSUPP));
}

#[test]
fn invalid_message_is_skipped() {
    let mut two = Two::new();
    two.sides[0].say(1, [1, 0, 0], b"abc").unwrap();
    two.collect();
    two.carry();
    two.sides[0].say(1, [2, 0, 0], b"abc").unwrap();
    two.collect();
    let forge = |change: fn(&mut UlnWire)| {
        move |(from, mut sent): (usize, Sent)| {
            change(&mut sent.wire);
            (from, sent)
        }
    };
    assert!(two.flying.iter().all(|(_, sent)| sent.wire.kind == ULN_WIRE_CARD));
    let flying = std::mem::take(&mut two.flying);
    two.flying = flying.into_iter().map(forge(|wire| wire.name_length = 1)).collect();
    two.carry();
    assert_eq!(two.sides[1].card.said.len(), 1);
}
