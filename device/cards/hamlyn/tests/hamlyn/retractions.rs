//! Messages that end half-way: their counts are taken back, so that the entry keeps counting
//! correctly (section 2.5).

use crate::support::{Two, request};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::HamlynMetadataEntry;
use hamlyn_abi::hamlyn::request::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::card::{Card, Progress};
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_test_host::hamlyn::HamlynCommands;
use zerocopy::{FromZeros, IntoBytes};

const PACKET: u32 = 256;

/// Returns two hosts with small packets, and sets a send buffer for the sender's first two termini.
fn two(mode: u32) -> Two {
    let mut two = Two::new(HamlynOptions { packet_size: PACKET, ..HamlynOptions::default() }, mode);
    two.sender.open_terminus(1);
    let area = two.sender.area(8 * u64::from(PACKET), 0);
    (0..2).for_each(|terminus| two.sender.set_send_buffer(terminus, 0, &area));
    if mode != HAMLYN_MODE_NORMAL {
        let entry = HamlynMetadataEntry { key: request(0, 0).key, high: 65536, ..FromZeros::new_zeroed() };
        two.set_entry(0, entry);
    }
    two
}

/// Posts a message of `packets` packets.
fn post(two: &mut Two, terminus: u32, packets: u32) {
    let length = packets * PACKET;
    let message = HamlynRequest { flags: HAMLYN_REQUEST_DMA, gather_count: 1, ..request(512, length) };
    let tuple = HamlynGather { tag: 0, reserved: 0, offset: 0, length };
    two.sender.post(terminus, message, tuple.as_bytes());
}

/// Delivers the packets that have been sent. Returns their number.
fn deliver(two: &mut Two) -> usize {
    let sent = std::mem::take(&mut two.sender.wire.sent);
    let packets = sent.len();
    for (_, bytes) in sent {
        two.receiver.deliver(two.sender.id, bytes);
    }
    packets
}

/// Sends two packets of a message of three.
fn send_two_of_three(two: &mut Two) {
    post(two, 0, 3);
    for _ in 0..2 {
        assert_eq!(two.sender.transmit(), Progress::Worked);
    }
    assert_eq!((deliver(two), two.entry(0).accumulator), (2, 2));
}

fn close(two: &mut Two, terminus: u32) {
    let Ok(done) = two.sender.host.close_terminus(terminus);
    done.unwrap();
}

/// Checks that a message of three packets by the other terminus is notified once, when it is
/// complete.
fn next_message_arrives(two: &mut Two) {
    post(two, 1, 3);
    for packet in 0..3 {
        assert_eq!(two.receiver.receive(0), None, "packet {packet} has not arrived");
        assert_eq!(two.sender.transmit(), Progress::Worked);
        assert_eq!(deliver(two), 1);
    }
    assert!(two.receiver.receive(0).is_some());
    assert_eq!(two.receiver.receive(0), None);
}

#[test]
fn closed_terminus_takes_back_half_a_message() {
    for mode in [HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID, HAMLYN_MODE_PARANOID_ONE_SHOT] {
        let mut two = two(mode);
        send_two_of_three(&mut two);
        close(&mut two, 0);
        two.carry();
        assert_eq!(two.entry(0).accumulator, 0);
        assert_eq!(two.receiver.counter(Statistic::MessagesReceived), 0);
        next_message_arrives(&mut two);
    }
}

#[test]
fn refused_dma_takes_back_half_a_message() {
    let mut two = two(HAMLYN_MODE_NORMAL);
    // The third packet's page is not in host memory.
    let area = two.sender.area(2 * 4096, 0);
    let list: u64 = two.sender.read(area.abi.directory);
    two.sender.write(list + 8, 1_u64 << 40);
    two.sender.set_send_buffer(0, 1, &area);
    let length = 3 * PACKET;
    let message = HamlynRequest { flags: HAMLYN_REQUEST_DMA, gather_count: 1, ..request(0, length) };
    let tuple = HamlynGather { tag: 1, reserved: 0, offset: 4096 - 2 * PACKET, length };
    two.sender.post(0, message, tuple.as_bytes());
    two.carry();
    assert_eq!(two.sender.counter(Statistic::RefusedSendDma), 1);
    assert_eq!(two.receiver.counter(Statistic::PacketsReceived), 3, "two packets and the retraction");
    assert_eq!(two.entry(0).accumulator, 0);
    next_message_arrives(&mut two);
}

#[test]
fn reset_takes_back_half_a_message() {
    let mut two = two(HAMLYN_MODE_NORMAL);
    send_two_of_three(&mut two);
    two.sender.with_card(|card, ports, _| card.reset(ports));
    assert_eq!(two.sender.transmit(), Progress::Worked);
    assert_eq!((deliver(&mut two), two.entry(0).accumulator), (1, 0));
}

#[test]
fn message_that_has_not_begun_is_not_retracted() {
    let mut two = two(HAMLYN_MODE_NORMAL);
    post(&mut two, 0, 3);
    close(&mut two, 0);
    assert_eq!(two.sender.transmit(), Progress::Idle);
}

#[test]
fn retraction_waits_for_a_stopped_host() {
    let mut two = two(HAMLYN_MODE_NORMAL);
    send_two_of_three(&mut two);
    two.sender.wire.stopped = vec![1];
    close(&mut two, 0);
    assert_eq!(two.sender.transmit_all(), Progress::Idle, "the card may sleep");
    assert_eq!(deliver(&mut two), 0);
    two.sender.wire.stopped.clear();
    two.sender.wire.resumptions += 1;
    two.carry();
    assert_eq!(two.entry(0).accumulator, 0);
}

#[test]
fn late_retraction_leaves_a_zeroed_accumulator() {
    let mut two = two(HAMLYN_MODE_NORMAL);
    send_two_of_three(&mut two);
    close(&mut two, 0);
    two.set_entry(0, HamlynMetadataEntry { accumulator: 0, ..two.entry(0) });
    two.carry();
    assert_eq!(two.entry(0).accumulator, 0);
    next_message_arrives(&mut two);
}

#[test]
fn retraction_needs_the_key() {
    let mut two = two(HAMLYN_MODE_PARANOID);
    send_two_of_three(&mut two);
    two.set_entry(0, HamlynMetadataEntry { key: 1, ..two.entry(0) });
    close(&mut two, 0);
    two.carry();
    assert_eq!(two.entry(0).accumulator, 2);
    assert_eq!(two.receiver.counter(Statistic::RefusedParanoidKey), 1);
}
