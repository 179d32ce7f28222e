//! Hosts that take nothing, for which the switch accepts no more packets: senders to other hosts
//! proceed.

use crate::support::{Host, SLOT, request};
use hamlyn_abi::hamlyn::command::{
    HAMLYN_COMMAND_CLOSE_TERMINUS, HAMLYN_COMMAND_OPEN_TERMINUS, HAMLYN_TERMINUS_PRIVILEGED,
    HamlynOpenTerminus,
};
use hamlyn_abi::hamlyn::request::{HAMLYN_FETCH_ADD, HamlynRequest};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::card::{Card, Place, Progress};
use hamlyn_card_hamlyn::HamlynOptions;

fn to(destination: u32, length: u32) -> HamlynRequest {
    HamlynRequest { destination, ..request(0, length) }
}

const NOTHING: [u16; 0] = [];

/// Returns a host with `termini` termini.
fn host(termini: u32) -> Host {
    let mut host = Host::new(0, HamlynOptions::default());
    for terminus in 0..termini {
        host.open_terminus(terminus);
    }
    host
}

/// Returns the destinations of the packets that were sent since the last call.
fn sent(host: &mut Host) -> Vec<u16> {
    host.wire.sent.drain(..).map(|(destination, _)| destination).collect()
}

/// Returns a fetch-and-op with a key that was never given out.
fn invented(ticket: u32) -> Vec<u8> {
    let words = [SLOT, 0, 0xdead, 0xbeef, 0, 16, ticket, 0, 4, HAMLYN_FETCH_ADD];
    words.iter().flat_map(|word| word.to_le_bytes()).chain([0; 16]).collect()
}

#[test]
fn stopped_destination_does_not_block_other_termini() {
    let mut host = host(2);
    host.wire.stopped = vec![7];
    host.post(0, to(7, 4), b"held");
    for _ in 0..10 {
        host.post(1, to(8, 4), b"data");
    }
    assert_eq!(host.transmit_all(), Progress::Idle, "and there is nothing to look for");
    assert_eq!(sent(&mut host), [8; 10]);
}

#[test]
fn blocked_answers_delay_no_other_traffic() {
    let mut host = host(1);
    host.wire.stopped = vec![7];
    for ticket in 0..2000 {
        host.deliver(7, invented(ticket));
    }
    host.deliver(5, invented(1));
    for _ in 0..3 {
        host.post(0, to(8, 4), b"data");
    }
    assert_eq!(host.transmit_all(), Progress::Idle, "and there is nothing to look for");
    let mut all = sent(&mut host);
    all.sort();
    assert_eq!(all, [5, 8, 8, 8]);
}

/// Makes the switch accept packets to a host again, and has the card transmit.
fn resume(host: &mut Host, destination: u16) -> Progress {
    host.wire.stopped.retain(|&other| other != destination);
    host.wire.resumptions += 1;
    host.transmit_all()
}

#[test]
fn parked_terminus_resumes_with_its_host() {
    let mut host = host(3);
    host.wire.stopped = vec![7, 9];
    for terminus in [0, 1] {
        host.post(terminus, to(7, 4), b"one.");
        host.post(terminus, to(8, 4), b"two.");
    }
    host.post(2, to(9, 4), b"nine");
    host.transmit_all();
    assert_eq!(sent(&mut host), NOTHING, "later messages of the same terminus wait for the first");
    assert_eq!(resume(&mut host, 7), Progress::Idle);
    let mut all = sent(&mut host);
    all.sort();
    assert_eq!(all, [7, 7, 8, 8]);
    resume(&mut host, 9);
    assert_eq!(sent(&mut host), [9]);
    assert_eq!(host.counter(Statistic::LinkStalls), 3);
}

#[test]
fn stopped_message_resumes_where_it_stopped() {
    let mut host = Host::new(0, HamlynOptions { packet_size: 256, ..HamlynOptions::default() });
    host.open_terminus(0);
    host.post(0, to(7, 400), &[1; 400]);
    assert_eq!(host.with_card(|card, ports, wire| card.transmit(ports, wire)), Progress::Worked);
    host.wire.stopped = vec![7];
    host.transmit_all();
    assert_eq!(sent(&mut host), [7]);
    resume(&mut host, 7);
    assert_eq!(sent(&mut host), [7]);
    assert_eq!(host.counter(Statistic::MessagesSent), 1);
}

#[test]
fn doorbell_does_not_park_terminus_twice() {
    let mut host = host(2);
    host.wire.stopped = vec![7];
    host.post(0, to(7, 4), b"held");
    host.transmit_all();
    for _ in 0..3 {
        host.ring(0);
        assert_eq!(host.transmit_all(), Progress::Idle);
    }
    resume(&mut host, 7);
    assert_eq!(sent(&mut host), [7]);
    // It has one turn where others have one.
    for terminus in [0, 1] {
        for _ in 0..20 {
            host.post(terminus, to(8 + terminus, 400), &[0; 400]);
        }
    }
    host.transmit_all();
    let all = sent(&mut host);
    let first = |terminus| all[..20].iter().filter(|&&to| to == 8 + terminus as u16).count();
    assert!(first(0).abs_diff(first(1)) <= 10, "{all:?}");
}

#[test]
fn closed_terminus_leaves_nothing_parked() {
    let mut host = host(1);
    host.wire.stopped = vec![7];
    host.post(0, to(7, 4), b"held");
    host.transmit_all();
    host.command(HAMLYN_COMMAND_CLOSE_TERMINUS, 0, 0_u64).unwrap();
    host.open_terminus(0);
    host.post(0, to(8, 4), b"mine");
    host.transmit_all();
    assert_eq!(sent(&mut host), [8]);
    assert_eq!(resume(&mut host, 7), Progress::Idle);
    assert_eq!(sent(&mut host), NOTHING);
}

#[test]
fn new_link_has_no_stops() {
    let mut host = host(1);
    host.wire.stopped = vec![7];
    host.post(0, to(7, 4), b"held");
    host.deliver(7, invented(1));
    host.transmit_all();
    assert_eq!(sent(&mut host), NOTHING);
    // The new link's count starts again from the beginning.
    host.wire.stopped.clear();
    host.with_card(|card, ports, _| card.link_changed(ports, Some(Place { host: 0, ports: 64 })));
    host.transmit_all();
    assert_eq!(sent(&mut host), [7, 7]);
}

#[test]
fn privileged_messages_ignore_stops() {
    let mut host = host(0);
    let status = host.page();
    let body =
        HamlynOpenTerminus { status, weight: 1, flags: HAMLYN_TERMINUS_PRIVILEGED, ..Default::default() };
    host.command(HAMLYN_COMMAND_OPEN_TERMINUS, 0, body).unwrap();
    host.wire.stopped = vec![7];
    host.post(0, to(7, 4), b"you?");
    host.post(0, to(8, 4), b"you?");
    host.transmit_all();
    assert_eq!(sent(&mut host), [7, 8], "else one host makes all others take this one for dead");
}

#[test]
fn fetch_flood_costs_only_its_sender() {
    let mut host = host(1);
    host.wire.stopped = vec![7];
    for ticket in 0..5000 {
        host.deliver(7, invented(ticket));
        host.transmit_all();
    }
    // The card remembers this many, and no more.
    assert_eq!(host.counter(Statistic::RefusedKey) + host.counter(Statistic::RefusedClosedSlot), 1024);
    assert_eq!(host.counter(Statistic::RefusedFetchOverrun), 5000 - 1024);
    for asker in [5, 6] {
        host.deliver(asker, invented(1));
        host.deliver(asker, invented(2));
    }
    host.transmit_all();
    assert_eq!(sent(&mut host), [5, 6, 5, 6], "askers take turns");
    host.post(0, to(8, 4), b"data");
    host.wire.stopped.clear();
    host.wire.resumptions += 1;
    for _ in 0..2 {
        host.with_card(|card, ports, wire| card.transmit(ports, wire));
    }
    assert_eq!(sent(&mut host), [7, 8], "answers, however many, take turns with messages");
    host.transmit_all();
    assert_eq!(sent(&mut host).len(), 1023);
}
