use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::super::fake::Pair;
use super::*;

fn nodes(pair: &Pair) -> (Node<'_>, Node<'_>) {
    let node = |end| Node::over([pair.end(end)].into_iter()).unwrap();
    (node(0), node(1))
}

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251 + seed) as u8).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Send(u16, usize),
    Receive(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![Just(0), Just(1), Just(PIECE), Just(PIECE + 1), 0..5 * PIECE];
    prop_oneof![
        (0..4_u16, length).prop_map(|(kind, length)| Step::Send(kind, length)),
        (0..4_u16).prop_map(Step::Receive)
    ]
}

proptest! {
    #[test]
    fn messages_of_type_arrive_whole_and_in_order(steps in prop::collection::vec(step(), 1..80)) {
        let pair = Pair::hasty(LENGTH);
        let (mut sender, mut receiver) = nodes(&pair);
        let (mut sent, mut used) = (BTreeMap::<u16, VecDeque<Vec<u8>>>::new(), 0);
        for (seed, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send(kind, length) => {
                    let pieces = length.div_ceil(PIECE).max(1);
                    if used + pieces > BUFFERS {
                        continue;
                    }
                    let message = bytes(seed, length);
                    sender.csend(kind, &message, 0).unwrap();
                    sent.entry(kind).or_default().push_back(message);
                    used += pieces;
                }
                Step::Receive(kind) => {
                    let mut to = vec![0xee; 5 * PIECE + 1];
                    let found = receiver.crecv(kind, &mut to);
                    match sent.entry(kind).or_default().pop_front() {
                        Some(message) => {
                            prop_assert_eq!(found.unwrap(), message.len());
                            prop_assert_eq!(&to[..message.len()], &message[..]);
                            prop_assert_eq!(to[message.len()], 0xee);
                            used -= message.len().div_ceil(PIECE).max(1);
                        }
                        None => prop_assert!(found.unwrap_err().is_timed_out()),
                    }
                }
            }
        }
    }

    #[test]
    fn invalid_data_from_node_is_refused(
        words in prop::collection::vec((0..LENGTH / 8, any::<u64>()), 0..60),
        kinds in prop::collection::vec(0..3_u16, 0..30),
    ) {
        let pair = Pair::hasty(LENGTH);
        let (mut node, _) = nodes(&pair);
        for (place, value) in words {
            pair.memory[0].store_u64(place * 8, value);
            pair.memory[0].store_u64(place % BUFFERS * 8, THERE | (value % (3 << 32)));
        }
        for kind in kinds {
            let mut to = [0xee; 300];
            let found = node.crecv(kind, &mut to[..200]);
            prop_assert!(found.is_err() || found.is_ok_and(|length| length <= 200));
            prop_assert!(to[200..].iter().all(|byte| *byte == 0xee));
            let _ = node.csend(kind, &to, 0);
        }
    }
}

#[test]
fn message_larger_than_all_buffers_is_received() {
    let pair = Pair::new(LENGTH);
    let (mut sender, mut receiver) = nodes(&pair);
    let message = bytes(3, 40 * PIECE + 5);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sender.csend(8, b"first", 0).unwrap();
            sender.csend(9, &message, 0).unwrap();
            sender.csend(8, b"behind", 0).unwrap();
        });
        let mut to = vec![0; message.len()];
        assert_eq!(receiver.crecv(9, &mut to).unwrap(), message.len());
        assert!(to == message);
        assert_eq!((receiver.crecv(8, &mut to).unwrap(), &to[..5]), (5, &b"first"[..]));
        assert_eq!((receiver.crecv(8, &mut to).unwrap(), &to[..6]), (6, &b"behind"[..]));
    });
}

#[test]
fn sender_waits_for_free_buffer() {
    let pair = Pair::hasty(LENGTH);
    let (mut sender, mut receiver) = nodes(&pair);
    for kind in 0..BUFFERS as u16 {
        sender.csend(kind, &[kind as u8], 0).unwrap();
    }
    assert!(sender.csend(99, b"", 0).unwrap_err().is_timed_out());
    // Any buffer that was freed is used, and no message is overwritten.
    receiver.crecv(9, &mut [0]).unwrap();
    sender.csend(99, b"x", 0).unwrap();
    for kind in (0..BUFFERS as u16).filter(|kind| *kind != 9).chain([99]) {
        let mut to = [0];
        receiver.crecv(kind, &mut to).unwrap();
        assert_eq!(to[0], if kind == 99 { b'x' } else { kind as u8 });
    }
}

#[test]
fn message_that_does_not_fit_is_kept() {
    let pair = Pair::hasty(LENGTH);
    let (mut sender, mut receiver) = nodes(&pair);
    for message in [bytes(1, 100), bytes(2, 3 * PIECE)] {
        sender.csend(5, &message, 0).unwrap();
        let refused = receiver.crecv(5, &mut vec![0; message.len() - 1]).unwrap_err().to_string();
        let (length, limit) = (message.len(), message.len() - 1);
        assert_eq!(refused, format!("message length {length} is out of range (limit {limit})"));
        let mut to = vec![0; message.len()];
        receiver.crecv(5, &mut to).unwrap();
        assert!(to == message);
    }
    assert_eq!(sender.csend(5, b"", 1).unwrap_err().to_string(), "node 1 is out of range (limit 0)");
}

#[test]
fn node_receives_from_several_ends() {
    let pairs = [Pair::hasty(LENGTH), Pair::hasty(LENGTH)];
    let mut middle = Node::over(pairs.iter().map(|pair| pair.end(0))).unwrap();
    let mut others = pairs.each_ref().map(|pair| Node::over([pair.end(1)].into_iter()).unwrap());
    for (number, other) in others.iter_mut().enumerate() {
        other.csend(number as u16, &[number as u8; 3], 0).unwrap();
        other.csend(7, &bytes(number, 2 * PIECE), 0).unwrap();
    }
    for number in [1, 0] {
        let mut to = [0; 3];
        middle.crecv(number, &mut to).unwrap();
        assert_eq!(to, [number as u8; 3]);
        middle.csend(1, b"answer", number.into()).unwrap();
    }
    // Each message of this type comes from one node.
    for (number, other) in others.iter_mut().enumerate() {
        let mut to = vec![0; 2 * PIECE];
        middle.crecv(7, &mut to).unwrap();
        assert!(to == bytes(number, 2 * PIECE));
        assert_eq!(other.crecv(1, &mut to).unwrap(), 6);
    }
    assert!(Node::over([].into_iter()).is_err());
}

#[test]
fn wait_fails_when_all_peers_left_or_timeout() {
    let pairs = [Pair::new(LENGTH), Pair::new(LENGTH)];
    let mut middle = Node::over(pairs.iter().map(|pair| pair.end(0))).unwrap();
    let mut last = Node::over([pairs[1].end(1)].into_iter()).unwrap();
    pairs[0].leave(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            last.csend(1, b"done", 0).unwrap();
        });
        assert_eq!(middle.crecv(1, &mut [0; 9]).unwrap(), 4, "the other node has still something to say");
    });
    // Data that a node sent before it left is received, and nothing else follows.
    last.csend(2, b"bye", 0).unwrap();
    pairs[1].leave(1);
    assert_eq!(middle.crecv(2, &mut [0; 9]).unwrap(), 3);
    assert!(matches!(middle.crecv(2, &mut [0; 9]), Err(Error::PeerLost(_))));
    let pairs = [Pair::hasty(LENGTH), Pair::hasty(LENGTH)];
    let mut middle = Node::over(pairs.iter().map(|pair| pair.end(0))).unwrap();
    pairs[1].leave(1);
    assert!(
        matches!(middle.crecv(1, &mut [0; 9]), Err(Error::PeerLost(_))),
        "says more than that it is late"
    );
}

#[test]
fn wait_for_rest_of_message_fails_without_node() {
    let pairs = [Pair::new(LENGTH), Pair::new(LENGTH)];
    let mut middle = Node::over(pairs.iter().map(|pair| pair.end(0))).unwrap();
    // A single piece of a longer message.
    pairs[0].memory[0].store_u64(0, THERE | 5000);
    pairs[0].leave(1);
    assert!(matches!(middle.crecv(0, &mut [0; 6000]), Err(Error::PeerLost(_))));
}

#[test]
fn invalid_slot_is_reported_once() {
    let pair = Pair::hasty(LENGTH);
    let (mut sender, mut receiver) = nodes(&pair);
    for nonsense in [1, THERE | 1 << 52, !THERE] {
        // A value that a node stores where the next message is announced.
        pair.memory[1].store_u64(sender.peers[0].filled * 8, nonsense);
        assert!(matches!(receiver.crecv(1, &mut [0; 9]), Err(Error::Malformed(_))), "{nonsense:#x}");
        sender.peers[0].filled += 1;
        sender.csend(1, b"again", 0).unwrap();
        assert_eq!(receiver.crecv(1, &mut [0; 9]).unwrap(), 5);
    }
}

#[test]
fn piece_out_of_order_is_refused() {
    let pair = Pair::hasty(LENGTH);
    let (_, mut receiver) = nodes(&pair);
    pair.memory[1].store_u64(0, THERE | 5000);
    pair.memory[1].store_u64(8, THERE | 5000);
    let told = receiver.crecv(0, &mut [0; 6000]).unwrap_err().to_string();
    assert!(told.contains("not the next one"), "{told}");
}
