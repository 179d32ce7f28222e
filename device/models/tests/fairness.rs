//! How busy termini share the link: equally, or as their weights say; by bytes, however long their messages.

mod support;

use hamlyn_abi::hamlyn::request::{HAMLYN_REQUEST_DMA, HamlynGather, HamlynRequest};
use hamlyn_abi::hamlyn::window::{HAMLYN_WINDOW_AWAKE, HAMLYN_WINDOW_SIZE};
use hamlyn_models::card::{Card, Progress};
use hamlyn_models::hamlyn::HamlynOptions;
use hamlyn_models::ports::Window;
use support::{AREA, Host, request};
use zerocopy::IntoBytes;

/// Posts a message of `length` bytes; its slot is its terminus, so that the packets tell.
fn post(host: &mut Host, terminus: u32, length: u32) {
    let tuple = HamlynGather { tag: 0, reserved: 0, offset: 0, length };
    let message =
        HamlynRequest { slot: terminus, flags: HAMLYN_REQUEST_DMA, gather_count: 1, ..request(0, length) };
    host.post(terminus, message, tuple.as_bytes());
}

/// Keeps the queues of termini, each a weight and the length of its messages, full while `packets` are sent. Bytes sent
/// by each.
fn saturate(termini: &[(u32, u32)], packets: usize) -> Vec<usize> {
    let mut host = Host::new(0, HamlynOptions { packet_size: 1024, ..HamlynOptions::default() });
    for (terminus, (weight, _)) in termini.iter().enumerate() {
        host.open_terminus_weighted(terminus as u32, *weight);
        let area = host.area(AREA, 0);
        host.set_send_buffer(terminus as u32, 0, &area);
    }
    let mut queued = vec![0_i64; termini.len()];
    let mut sent = vec![0; termini.len()];
    for _ in 0..packets {
        for (terminus, (_, length)) in termini.iter().enumerate() {
            while queued[terminus] < 8 {
                post(&mut host, terminus as u32, *length);
                queued[terminus] += i64::from(length.div_ceil(1024));
            }
        }
        assert_eq!(host.with_card(|card, ports, wire| card.transmit(ports, wire)), Progress::Worked);
        for (_, bytes) in host.wire.sent.drain(..) {
            sent[bytes[0] as usize] += bytes.len();
            queued[bytes[0] as usize] -= 1;
        }
    }
    sent
}

/// Whether each has its share of the whole within 10%.
fn in_proportion(sent: &[usize], weights: &[u32]) -> bool {
    let (whole, weight): (usize, u32) = (sent.iter().sum(), weights.iter().sum());
    sent.iter().zip(weights).all(|(sent, share)| {
        let due = whole * *share as usize / weight as usize;
        sent.abs_diff(due) * 10 <= due
    })
}

#[test]
fn busy_termini_get_equal_bandwidth_whatever_they_send() {
    let termini = [(1, 16), (1, 100), (1, 1024), (1, 5000), (1, 60_000)];
    let sent = saturate(&termini, 8000);
    assert!(in_proportion(&sent, &[1; 5]), "{sent:?}");
}

#[test]
fn weights_divide_the_link() {
    let termini = [(1, 1000), (2, 1000), (5, 3000), (8, 64)];
    let sent = saturate(&termini, 20_000);
    assert!(in_proportion(&sent, &[1, 2, 5, 8]), "{sent:?}");
}

#[test]
fn requests_that_are_refused_do_not_keep_the_turn() {
    let mut host = Host::new(0, HamlynOptions::default());
    host.open_terminus(0);
    host.open_terminus(1);
    host.post(1, request(0, 4), b"data");
    // A terminus that posts nonsense as fast as the card can refuse it.
    let mut turns = 0;
    while host.wire.sent.is_empty() {
        host.post(0, HamlynRequest { flags: 1 << 31, ..request(0, 0) }, b"");
        host.with_card(|card, ports, wire| card.transmit(ports, wire));
        turns += 1;
        assert!(turns < 200, "its neighbour is never served");
    }
}

#[test]
fn a_terminus_that_was_used_once_does_not_stay_awake_beside_a_busy_one() {
    let mut host = Host::new(0, HamlynOptions::default());
    host.open_terminus(0);
    host.open_terminus(1);
    let awake = |host: &Host, terminus: u32| {
        host.window.load(u64::from(terminus * HAMLYN_WINDOW_SIZE + HAMLYN_WINDOW_AWAKE)) != 0
    };
    host.post(1, request(0, 4), b"once");
    for round in 0..12_000 {
        host.post(0, request(0, 448), &[7; 448]);
        host.wire.sent.clear();
        host.with_card(|card, ports, wire| card.transmit(ports, wire));
        assert!(round > 100 || awake(&host, 1), "it may well send more soon");
    }
    assert!(awake(&host, 0) && !awake(&host, 1));
    let before = host.wire.sent.len();
    host.post(1, request(0, 4), b"more");
    host.transmit_all();
    assert_eq!(host.wire.sent.len(), before + 2, "its owner rings, and both are served");
}
