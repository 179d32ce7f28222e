//! Messages from one card to another (sections 2.3 to 2.7).

use crate::support::{AREA, Host, KEY, POINTER, Two, request};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::{HAMLYN_ONE_SHOT_LOCKED, HAMLYN_ONE_SHOT_OPEN, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_FAST, HamlynNotification};
use hamlyn_abi::hamlyn::request::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::{HAMLYN_WINDOW_TAIL, HamlynTerminusStatus};
use hamlyn_card::card::Progress;
use hamlyn_card::ports::Window;
use hamlyn_card_hamlyn::HamlynOptions;
use proptest::prelude::*;
use zerocopy::{FromZeros, IntoBytes};

fn two() -> Two {
    Two::new(HamlynOptions::default(), HAMLYN_MODE_NORMAL)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn direct_io_delivers_metadata_and_one_notification() {
    let mut two = two();
    let message = HamlynRequest { metadata_index: 2, metadata_length: 5, ..request(1000, 16) };
    two.sender.post(0, message, b"hello\0\0\0sixteen bytes...");
    two.carry();
    assert_eq!(two.receiver.peek(&two.area, 1000, 16), b"sixteen bytes...");
    assert_eq!(&two.entry(2).user[..5], b"hello");
    let notification = two.receiver.receive(0).unwrap();
    let expected = HamlynNotification {
        metadata: POINTER + 256,
        slot: 3,
        notification_index: 77,
        wrap: 1,
        ..Default::default()
    };
    assert_eq!(notification, expected);
    assert_eq!(two.receiver.receive(0), None);
}

#[test]
fn fast_mode_carries_word_instead_of_metadata() {
    let mut two = two();
    two.sender.post(
        0,
        HamlynRequest { metadata_index: HAMLYN_FAST_MODE, delta: 4711, ..request(0, 4) },
        b"fast",
    );
    two.carry();
    assert_eq!(two.receiver.peek(&two.area, 0, 4), b"fast");
    let notification = two.receiver.receive(0).unwrap();
    assert_eq!((notification.metadata, notification.wrap), (4711, 1 | HAMLYN_NOTIFICATION_FAST));
}

/// Sets up two send buffers with a known pattern. Returns the pattern and the tuples that gather
/// `length` bytes from both buffers in turn.
fn gathered(two: &mut Two, length: usize) -> (Vec<u8>, Vec<u8>) {
    let bytes = pattern(length);
    let mut tuples = Vec::new();
    let areas = [two.sender.area(AREA, 9), two.sender.area(AREA, 4000)];
    for (tag, area) in areas.iter().enumerate() {
        two.sender.set_send_buffer(0, tag as u32, area);
    }
    for (i, part) in bytes.chunks(length.div_ceil(5).max(1)).enumerate() {
        let offset = i as u32 * 5000;
        two.sender.poke(&areas[i % 2], offset.into(), part);
        let tuple = HamlynGather { tag: i as u32 % 2, reserved: 0, offset, length: part.len() as u32 };
        tuples.extend(tuple.as_bytes());
    }
    (bytes, tuples)
}

fn gather_request(offset: u32, length: usize, tuples: &[u8]) -> HamlynRequest {
    let gather_count = tuples.len() as u32 / 16;
    HamlynRequest { flags: HAMLYN_REQUEST_DMA, gather_count, ..request(offset, length as u32) }
}

#[test]
fn dma_gathers_metadata_first_and_then_data() {
    let mut two = two();
    let (bytes, tuples) = gathered(&mut two, 10_060);
    let message = HamlynRequest { metadata_length: 60, ..gather_request(50, 10_000, &tuples) };
    two.sender.post(0, message, &tuples);
    two.carry();
    assert_eq!(two.entry(0).user[..], bytes[..60]);
    assert_eq!(two.receiver.peek(&two.area, 50, 10_000), bytes[60..]);
    assert_eq!(two.receiver.counter(Statistic::PacketsReceived), 3);
    assert!(two.receiver.receive(0).is_some());
}

#[test]
fn inline_metadata_stands_before_the_tuples() {
    let mut two = two();
    let (bytes, tuples) = gathered(&mut two, 9_000);
    let mut message = HamlynRequest { metadata_length: 17, ..gather_request(0, 9_000, &tuples) };
    message.flags |= HAMLYN_REQUEST_INLINE_METADATA;
    let body: Vec<u8> = pattern(32).into_iter().chain(tuples).collect();
    two.sender.post(0, message, &body);
    two.carry();
    assert_eq!(two.entry(0).user[..17], pattern(17));
    assert_eq!(two.receiver.peek(&two.area, 0, 9_000), bytes);
}

#[test]
fn silent_message_is_not_notified() {
    let mut two = two();
    two.sender.post(0, HamlynRequest { flags: HAMLYN_REQUEST_SILENT, ..request(0, 4) }, b"data");
    two.carry();
    assert_eq!(two.receiver.peek(&two.area, 0, 4), b"data");
    assert_eq!(two.receiver.receive(0), None);
}

#[test]
fn a_group_of_senders_makes_one_notification() {
    // Section 2.5: Y1 + Y2 + Y3 = 2^32. The packets of one message cannot use up values this large.
    let mut two = two();
    for (y, offset) in [(1_u32 << 30, 0), (1 << 30, 4), (1 << 31, 8)] {
        assert_eq!(two.receiver.receive(0), None);
        two.sender.post(0, HamlynRequest { delta: y, ..request(offset, 4) }, b"part");
        two.carry();
    }
    assert!(two.receiver.receive(0).is_some());
    assert_eq!(two.receiver.receive(0), None);
    assert_eq!(two.receiver.peek(&two.area, 0, 12), b"partpartpart");
}

#[test]
fn the_notification_queue_wraps_with_its_flag() {
    let mut two = two();
    for i in 0..11 {
        let message = HamlynRequest { metadata_index: HAMLYN_FAST_MODE, delta: i, ..request(0, 0) };
        two.sender.post(0, message, b"");
        two.carry();
        assert_eq!(two.receiver.receive(0).unwrap().metadata, u64::from(i));
        assert_eq!(two.receiver.receive(0), None);
    }
}

#[test]
fn completion_counts_requests_and_63_entries_are_usable() {
    let mut host = Host::new(0, HamlynOptions::default());
    let status = host.open_terminus(0);
    host.wire.room = Some(10);
    for _ in 0..63 {
        host.post(0, request(0, 0), b"");
    }
    assert_eq!(host.transmit_all(), Progress::LinkFull);
    assert_eq!(host.read::<HamlynTerminusStatus>(status).completed, 10);
    host.wire.room = None;
    assert_eq!(host.transmit_all(), Progress::Idle);
    assert_eq!(host.read::<HamlynTerminusStatus>(status).completed, 63);
    assert_eq!(host.wire.sent.len(), 63);
}

#[test]
fn runaway_tail_affects_only_its_owner() {
    let mut host = Host::new(0, HamlynOptions::default());
    let status = host.open_terminus(0);
    host.window.store(u64::from(HAMLYN_WINDOW_TAIL), 1_000_000);
    host.ring(0);
    assert_eq!(host.transmit_all(), Progress::Idle);
    assert_eq!(host.counter(Statistic::RefusedOverrun), 1);
    assert_eq!(host.read::<HamlynTerminusStatus>(status).completed, 1_000_000);
    assert!(host.wire.sent.is_empty());
}

#[test]
fn termini_with_work_take_turns() {
    let mut host = Host::new(0, HamlynOptions { packet_size: 256, ..HamlynOptions::default() });
    for terminus in 0..3 {
        host.open_terminus(terminus);
        let area = host.area(AREA, 0);
        host.set_send_buffer(terminus, 0, &area);
        let tuple = HamlynGather { tag: 0, reserved: 0, offset: 0, length: 2560 };
        let message = HamlynRequest { slot: terminus, ..gather_request(0, 2560, tuple.as_bytes()) };
        host.post(terminus, message, tuple.as_bytes());
    }
    host.transmit_all();
    let slots: Vec<u8> = host.wire.sent.iter().map(|(_, bytes)| bytes[0]).collect();
    assert_eq!(slots.len(), 30);
    // A packet without metadata is a little smaller than a turn's allowance, so a turn is sometimes
    // two packets long.
    let mut sent = [0_i32; 3];
    for slot in slots {
        sent[usize::from(slot)] += 1;
        assert!(
            sent.iter().max().zip(sent.iter().min()).is_some_and(|(most, least)| most - least <= 2),
            "{sent:?}"
        );
    }
}

#[test]
fn invalid_requests_are_refused_with_reason() {
    let dma = HAMLYN_REQUEST_DMA;
    let tuple = |tag, offset, length| HamlynGather { tag, reserved: 0, offset, length }.as_bytes().to_vec();
    let gather = |length, count| HamlynRequest { flags: dma, gather_count: count, ..request(0, length) };
    let cases = [
        (HamlynRequest { flags: 32, ..request(0, 0) }, vec![], Statistic::RefusedFlags),
        (HamlynRequest { operation: 1, ..request(0, 0) }, vec![], Statistic::RefusedFlags),
        (HamlynRequest { reserved1: 1, ..request(0, 0) }, vec![], Statistic::RefusedFlags),
        (
            HamlynRequest { flags: HAMLYN_REQUEST_INLINE_METADATA, ..request(0, 0) },
            vec![],
            Statistic::RefusedFlags,
        ),
        (HamlynRequest { destination: 65536, ..request(0, 0) }, vec![], Statistic::RefusedDestination),
        (request(0, 449), vec![], Statistic::RefusedLength),
        (request(u32::MAX, 2), vec![], Statistic::RefusedLength),
        (HamlynRequest { metadata_length: 61, ..request(0, 0) }, vec![], Statistic::RefusedMetadataLength),
        (
            HamlynRequest { metadata_index: HAMLYN_FAST_MODE, metadata_length: 1, ..request(0, 0) },
            vec![],
            Statistic::RefusedMetadataLength,
        ),
        (
            HamlynRequest {
                metadata_index: HAMLYN_FAST_MODE,
                flags: dma,
                gather_count: 1,
                ..request(0, 4097)
            },
            tuple(0, 0, 4097),
            Statistic::RefusedFastMode,
        ),
        (gather(0, 29), vec![], Statistic::RefusedGatherCount),
        (gather(0, u32::MAX), vec![], Statistic::RefusedGatherCount),
        (gather(8, 1), tuple(8, 0, 8), Statistic::RefusedTag),
        (gather(8, 1), tuple(1, 0, 8), Statistic::RefusedTag),
        (gather(8, 1), tuple(0, 65529, 8), Statistic::RefusedSendBuffer),
        (gather(8, 1), tuple(0, u32::MAX, 8), Statistic::RefusedSendBuffer),
        (gather(8, 1), tuple(0, 0, 7), Statistic::RefusedLength),
    ];
    for (message, body, reason) in cases {
        let mut host = Host::new(0, HamlynOptions::default());
        let status = host.open_terminus(0);
        let area = host.area(AREA, 0);
        host.set_send_buffer(0, 0, &area);
        host.post(0, message, &body);
        assert_eq!(host.transmit_all(), Progress::Idle);
        assert_eq!(host.counter(reason), 1, "{message:?}");
        assert!(host.wire.sent.is_empty(), "{message:?}");
        let told: HamlynTerminusStatus = host.read(status);
        assert_eq!((told.completed, told.refused), (1, 1));
        assert_eq!(Statistic::from_number(told.reasons[0]), Some(reason));
    }
}

#[test]
fn each_entry_reports_result_of_its_request() {
    let mut host = Host::new(0, HamlynOptions::default());
    let status = host.open_terminus(0);
    for round in 0..3 {
        for i in 0..64 {
            let bad = HamlynRequest { destination: 65536, ..request(0, 0) };
            host.post(0, if (i + round) % 3 == 0 { bad } else { request(0, 0) }, b"");
            host.transmit_all();
        }
        let told: HamlynTerminusStatus = host.read(status);
        assert_eq!(told.completed, 64 * (round + 1));
        for (i, reason) in told.reasons.into_iter().enumerate() {
            let refused = (i as u32 + round) % 3 == 0;
            assert_eq!(reason, if refused { Statistic::RefusedDestination as u32 } else { 0 }, "entry {i}");
        }
    }
}

#[test]
fn invalid_packets_change_no_byte() {
    let cases = [
        (HamlynRequest { slot: 100_000, ..request(0, 16) }, Statistic::RefusedSlot),
        (HamlynRequest { slot: 4, ..request(0, 16) }, Statistic::RefusedClosedSlot),
        (HamlynRequest { key: KEY ^ 1, ..request(0, 16) }, Statistic::RefusedKey),
        (HamlynRequest { key: KEY ^ 1 << 63, ..request(0, 16) }, Statistic::RefusedKey),
        (request(AREA as u32 - 15, 16), Statistic::RefusedBounds),
        (request(u32::MAX - 15, 16), Statistic::RefusedBounds),
        (HamlynRequest { metadata_index: 4, ..request(0, 16) }, Statistic::RefusedMetadataIndex),
    ];
    for (message, reason) in cases {
        let mut two = two();
        let before = two.receiver.memory_image();
        two.sender.post(0, message, &[0xff; 16]);
        two.carry();
        assert_eq!(two.receiver.counter(reason), 1, "{message:?}");
        assert!(two.receiver.memory_image() == before, "{message:?}");
    }
}

#[test]
fn card_discards_at_power_on() {
    let mut two = two();
    two.receiver.write_register(hamlyn_abi::family::control::ULN_REG_CONTROL, 4, 0);
    let before = two.receiver.memory_image();
    two.sender.post(0, request(0, 16), &[0xff; 16]);
    two.carry();
    assert_eq!(two.receiver.counter(Statistic::Discarded), 1);
    assert!(two.receiver.memory_image() == before);
}

fn opened(low: u64, high: u64) -> HamlynMetadataEntry {
    HamlynMetadataEntry { key: 99, low, high, ..HamlynMetadataEntry::new_zeroed() }
}

#[test]
fn paranoid_entries_only_narrow_their_slot() {
    let cases = [
        (99, 100, 16, None),
        (KEY, 100, 16, Some(Statistic::RefusedParanoidKey)),
        (99, 99, 16, Some(Statistic::RefusedParanoidBounds)),
        (99, 185, 16, Some(Statistic::RefusedParanoidBounds)),
    ];
    for (key, offset, length, reason) in cases {
        let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_PARANOID);
        two.set_entry(0, opened(100, 200));
        two.sender.post(0, HamlynRequest { key, ..request(offset, length) }, &[1; 16]);
        two.carry();
        assert_eq!(two.receiver.receive(0).is_none(), reason.is_some(), "offset {offset}");
        if let Some(reason) = reason {
            assert_eq!(two.receiver.counter(reason), 1, "offset {offset}");
        }
    }
    let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_PARANOID);
    two.set_entry(0, opened(0, u64::MAX));
    two.sender.post(0, HamlynRequest { key: 99, ..request(AREA as u32 - 8, 16) }, &[1; 16]);
    two.carry();
    assert_eq!(two.receiver.counter(Statistic::RefusedBounds), 1);
}

#[test]
fn one_shot_entry_takes_one_message_until_reopened() {
    let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_PARANOID_ONE_SHOT);
    two.set_entry(0, opened(0, AREA));
    let message = HamlynRequest { key: 99, ..request(0, 4) };
    for body in [b"once", b"more"] {
        two.sender.post(0, message, body);
        two.carry();
    }
    assert_eq!(two.receiver.peek(&two.area, 0, 4), b"once");
    assert_eq!(two.receiver.counter(Statistic::RefusedOneShot), 1);
    assert_eq!(two.entry(0).one_shot, HAMLYN_ONE_SHOT_LOCKED);
    two.set_entry(0, HamlynMetadataEntry { one_shot: HAMLYN_ONE_SHOT_OPEN, ..two.entry(0) });
    two.sender.post(0, message, b"more");
    two.carry();
    assert_eq!(two.receiver.peek(&two.area, 0, 4), b"more");
}

#[test]
fn paranoid_slot_refuses_fast_mode() {
    let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_PARANOID);
    two.sender.post(0, HamlynRequest { metadata_index: HAMLYN_FAST_MODE, ..request(0, 4) }, b"fast");
    two.carry();
    assert_eq!(two.receiver.counter(Statistic::RefusedFastParanoid), 1);
}

#[test]
fn cleared_send_buffer_ends_its_message() {
    let mut two =
        Two::new(HamlynOptions { packet_size: 256, ..HamlynOptions::default() }, HAMLYN_MODE_NORMAL);
    let (_, tuples) = gathered(&mut two, 2000);
    two.sender.post(0, gather_request(0, 2000, &tuples), &tuples);
    two.sender.wire.room = Some(2);
    two.sender.transmit_all();
    let clear = HamlynSetSendBuffer { tag: 1, ..Default::default() };
    two.sender.command(HAMLYN_COMMAND_CLEAR_SEND_BUFFER, 0, clear).unwrap();
    two.sender.wire.room = None;
    assert_eq!(two.sender.transmit_all(), Progress::Idle);
    assert_eq!(two.sender.counter(Statistic::RefusedTag), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Reassembly (section 2.5): the packets of several messages arrive in any order. Every byte is
    /// in its place, and each message is notified once, with its last packet.
    #[test]
    fn messages_complete_in_any_packet_order(
        lengths in proptest::collection::vec(0..5000_usize, 1..4),
        packet_size in (32..128_u32).prop_map(|n| n * 8),
        order in any::<u64>(),
    ) {
        let mut two = Two::new(HamlynOptions { packet_size, ..HamlynOptions::default() }, HAMLYN_MODE_NORMAL);
        let source = two.sender.area(AREA, 1);
        two.sender.set_send_buffer(0, 0, &source);
        two.sender.poke(&source, 0, &pattern(20_000));
        for (i, length) in lengths.iter().enumerate() {
            let at = i as u32 * 6000;
            let tuple = HamlynGather { tag: 0, reserved: 0, offset: i as u32 * 11, length: *length as u32 };
            let message = HamlynRequest { metadata_index: i as u32, ..gather_request(at, *length, tuple.as_bytes()) };
            two.sender.post(0, message, tuple.as_bytes());
        }
        prop_assert_eq!(two.sender.transmit_all(), Progress::Idle);
        let mut packets = std::mem::take(&mut two.sender.wire.sent);
        let mut state = order;
        let mut left: Vec<usize> = lengths.iter().map(|length| length.div_ceil(packet_size as usize).max(1)).collect();
        while !packets.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (_, bytes) = packets.swap_remove((state >> 33) as usize % packets.len());
            let message = usize::from(bytes[4]);
            left[message] -= 1;
            two.receiver.deliver(0, bytes);
            let notification = two.receiver.receive(0);
            prop_assert_eq!(notification.is_some(), left[message] == 0);
            if let Some(notification) = notification {
                prop_assert_eq!(notification.metadata, POINTER + 128 * message as u64);
            }
        }
        for (i, length) in lengths.iter().enumerate() {
            let arrived = two.receiver.peek(&two.area, i as u64 * 6000, *length);
            prop_assert_eq!(&arrived[..], &pattern(20_000)[i * 11..][..*length]);
            prop_assert_eq!(two.entry(i as u64).accumulator, 0);
        }
    }

    /// A hostile host: no packet changes anything outside the slot's areas and queue.
    #[test]
    fn no_packet_reaches_outside_its_areas(
        slot in 0..6_u32, index in prop_oneof![0..6_u32, Just(HAMLYN_FAST_MODE)], key in prop_oneof![Just(KEY), any::<u64>()],
        offset in prop_oneof![0..70_000_u32, any::<u32>()], delta: u32, data in proptest::collection::vec(Just(0xaa_u8), 0..300),
    ) {
        let mut two = two();
        let marker = two.receiver.area(4096, 0);
        two.receiver.poke(&marker, 0, &[0x55; 4096]);
        let words = [slot, index, key as u32, (key >> 32) as u32, offset, data.len() as u32, delta, 0, 0, 0];
        let mut packet: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        packet.extend(&data);
        let before = two.receiver.memory_image();
        two.receiver.deliver(9, packet);
        let accepted = two.receiver.counter(Statistic::PacketsReceived) == 1;
        let inside = u64::from(offset) + data.len() as u64 <= AREA;
        let rightful = slot == 3 && key == KEY && inside && (index < 4 || index == HAMLYN_FAST_MODE);
        prop_assert_eq!(accepted, rightful);
        if accepted {
            prop_assert_eq!(two.receiver.peek(&two.area, offset.into(), data.len()), data);
            prop_assert_eq!(two.receiver.peek(&marker, 0, 4096), vec![0x55; 4096]);
        } else {
            prop_assert!(two.receiver.memory_image() == before);
        }
    }

    /// A hostile process: any work-queue entry is sent or refused, and the terminus continues.
    #[test]
    fn any_request_is_finished(bytes in proptest::collection::vec(any::<u8>(), 512)) {
        let mut host = Host::new(0, HamlynOptions::default());
        let status = host.open_terminus(0);
        let mut head = HamlynRequest::new_zeroed();
        head.as_mut_bytes().copy_from_slice(&bytes[..64]);
        host.post(0, head, &bytes[64..]);
        host.post(0, request(0, 0), b"");
        prop_assert_eq!(host.transmit_all(), Progress::Idle);
        prop_assert_eq!(host.read::<HamlynTerminusStatus>(status).completed, 2);
    }
}
