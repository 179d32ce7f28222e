//! From records to events, packets' ways, and the formats that are written.

use std::collections::BTreeMap;

use hamlyn_card::packet::{FieldNames, PacketField};
use hamlyn_fabric::Protocol;
use hamlyn_trace::capture::{Capture, Dissected, Interface, dissector};
use hamlyn_trace::event::Event;
use hamlyn_trace::hello::{CardName, RegionName};
use hamlyn_trace::message::Messages;
use hamlyn_trace::perfetto::Perfetto;
use hamlyn_trace::record::{Kind, Record};
use hamlyn_trace::text;
use hamlyn_trace::timeline::Timeline;
use serde_json::Value;
use zerocopy::IntoBytes;

const GO: u64 = 0x48;
const PAGE: u64 = 0x1_0000;

static PACKET: &[PacketField] = &[
    PacketField { name: "kind", offset: 0, bytes: 1, names: FieldNames::Values(&[(2, "READ")]) },
    PacketField { name: "tag", offset: 4, bytes: 4, names: FieldNames::None },
];

fn card(name: &str, host: u16) -> CardName {
    let region = RegionName { bar: 2, name: "CLAN_ENDPOINT".into(), start: 0, size: 4096, count: 8 };
    let counters = vec!["packets_sent".into(), "packets_arrived".into()];
    CardName {
        name: name.into(),
        model: "clan".into(),
        host: Some(host),
        counters,
        regions: vec![region],
        settings: BTreeMap::new(),
    }
}

/// Records of two CLAN cards, each with its time in microseconds.
#[derive(Default)]
struct Trace(Timeline, u64);

impl Trace {
    fn new() -> Self {
        let mut timeline = Timeline::default();
        timeline.add(&card("card0", 0), PACKET);
        timeline.add(&card("card1", 1), PACKET);
        Trace(timeline, 0)
    }

    fn put(&mut self, card: usize, kind: Kind, (a, b): (u64, u64), bytes: &[u8]) -> &mut Self {
        self.1 += 1;
        self.put_at(self.1, card, Record { a, b, kind: kind as u8, width: 4, ..Record::default() }, bytes)
    }

    fn put_at(&mut self, micros: u64, card: usize, record: Record, bytes: &[u8]) -> &mut Self {
        let record = Record { time: micros * 1000, length: bytes.len() as u32, ..record };
        self.0.push(card, &[record.as_bytes(), bytes].concat());
        self
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.0.next_before(u64::MAX)).collect()
    }

    fn lines(&mut self) -> Vec<String> {
        let events = self.events();
        let lines = events.iter().filter_map(|event| text::line(event, &format!("card{}", event.card), 0));
        lines.map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")).collect()
    }
}

/// The head of a command page: opcode, index, status, a reserved word, value, limit.
fn head(opcode: u32, index: u32, status: u32, value: u64, limit: u64) -> Vec<u8> {
    let words = [opcode, index, status, 0].map(u32::to_le_bytes).concat();
    [words, value.to_le_bytes().to_vec(), limit.to_le_bytes().to_vec()].concat()
}

#[test]
fn command_is_shown_with_body_and_refusal() {
    let mut trace = Trace::new();
    let area = [0x2000_u64, 0x8000].map(u64::to_le_bytes).concat();
    trace
        .put(0, Kind::RegisterWrite, (GO, 1), &[])
        .put(0, Kind::DmaRead, (PAGE, 32), &head(11, 3, 0, 0, 0))
        .put(0, Kind::DmaRead, (PAGE + 64, 32), &area)
        .put(0, Kind::DmaRead, (0x2000, 8), &[1, 2])
        .put(0, Kind::DmaWrite, (PAGE, 32), &head(11, 3, 5, 9, 7))
        .put(0, Kind::Done, (0, 0), &[])
        .put(0, Kind::DmaWrite, (PAGE, 32), &[]);
    assert_eq!(
        trace.lines(),
        [
            "card0 write ULN_REG_COMMAND_GO = 1",
            "card0 command CLAN_COMMAND_OPEN_FIFO index=3",
            "card0 body clan_open_fifo area.directory=8192 area.length=0x8000",
            "card0 dma read 0x2000 bytes=8 0102",
            "card0 result ULN_STATUS_BAD_LENGTH value=9 limit=7",
            "card0 dma write 0x10000 bytes=32",
        ]
    );
}

#[test]
fn registers_windows_and_packets_have_names() {
    let mut trace = Trace::new();
    let packet = [2, 0, 0, 0, 7, 0, 0, 0];
    trace
        .put(0, Kind::RegisterRead, (0x20, 1), &[])
        .put(0, Kind::RegisterRead, (0x4c, 3), &[])
        .put_at(
            2,
            0,
            Record { a: 4096 + 0x800, b: 1, bar: 2, kind: Kind::RegisterWrite as u8, ..Record::default() },
            &[],
        )
        .put_at(
            2,
            0,
            Record { a: 9 << 12, b: 1, bar: 2, kind: Kind::WindowLoad as u8, ..Record::default() },
            &[],
        )
        .put(0, Kind::Send, (0xff02, 8), &packet)
        .put(0, Kind::Counter, (1, 4), &[])
        .put(0, Kind::Lost, (5, 0), &[]);
    assert_eq!(
        trace.lines(),
        [
            "card0 read ULN_REG_CONTROL = ULN_CONTROL_ENABLE",
            "card0 read ULN_REG_COMMAND_STATUS = ULN_STATUS_IN_USE",
            "card0 write CLAN_ENDPOINT[1].GO = 1",
            "card0 load BAR2+0x9000 = 1",
            "card0 send to group 2 bytes=8 kind=READ tag=7 0200000007000000",
            "card0 count packets_arrived more=4",
            "card0 lost the trace was not read in time records=5",
        ]
    );
}

#[test]
fn events_wait_for_those_of_other_cards() {
    let mut trace = Trace::new();
    let interrupt = Record { kind: Kind::Interrupt as u8, ..Record::default() };
    trace.put_at(20, 0, interrupt, &[]).put_at(10, 1, interrupt, &[]);
    let mut next = |micros: u64| trace.0.next_before(micros * 1000).map(|event| event.card);
    assert_eq!([next(15), next(15), next(21), next(21)], [Some(1), None, Some(0), None]);
}

#[test]
fn short_and_unknown_records_are_skipped() {
    let mut trace = Trace::new();
    trace.0.push(0, &[1; 8]);
    trace.put_at(1, 0, Record { kind: 99, ..Record::default() }, &[]);
    trace.0.push(7, Record { kind: 1, ..Record::default() }.as_bytes());
    assert_eq!(trace.events(), []);
}

/// A packet from card 0 to card 1, which arrives before the sender's record is written.
fn sent() -> Trace {
    let mut trace = Trace::new();
    let record = |kind: Kind, a, b| Record { a, b, kind: kind as u8, ..Record::default() };
    let doorbell = Record { bar: 2, ..record(Kind::RegisterWrite, 0x800, 1) };
    trace.put_at(10, 0, doorbell, &[]).put_at(11, 0, record(Kind::Done, 0, 0), &[]);
    trace.put_at(12, 0, record(Kind::DmaRead, 0x5000, 8), &[]);
    trace.put_at(14, 1, record(Kind::Arrive, 0, 8), &[2; 8]);
    trace.put_at(15, 1, record(Kind::DmaWrite, 0x6000, 4), &[]);
    trace.put_at(16, 1, record(Kind::DmaWrite, 0x6004, 4), &[]);
    trace.put_at(17, 1, record(Kind::Interrupt, 1, 0), &[]);
    trace.put_at(19, 1, record(Kind::Done, 0, 0), &[]);
    trace.put_at(13, 0, record(Kind::Send, 1, 8), &[2; 8]);
    trace
}

#[test]
fn way_of_a_packet_has_every_step() {
    let mut messages = Messages::new(vec![Some(0), Some(1)]);
    let ways: Vec<_> = sent().events().iter().filter_map(|event| messages.push(event)).collect();
    let [way] = &ways[..] else { panic!("{ways:?}") };
    let steps: Vec<_> = way.steps.iter().map(|step| (step.what, step.card, step.time / 1000)).collect();
    let wanted = [
        ("doorbell", 0, 10),
        ("fetch", 0, 12),
        ("send", 0, 13),
        ("arrive", 1, 14),
        ("deposit", 1, 16),
        ("interrupt", 1, 17),
    ];
    assert_eq!((steps.as_slice(), way.cards, way.bytes), (&wanted[..], [0, 1], 8));
    let table = text::table(way, &["card0".into(), "card1".into()]);
    assert!(table.starts_with("packet 1, card0 to card1, 8 bytes\n"), "{table}");
    assert!(table.contains("interrupt        7.0 us      +1.0"), "{table}");
}

#[test]
fn packet_of_another_size_is_not_the_same() {
    let mut trace = Trace::new();
    trace.put(0, Kind::Send, (1, 8), &[]).put(1, Kind::Arrive, (0, 9), &[]).put(1, Kind::Done, (0, 0), &[]);
    let mut messages = Messages::new(vec![Some(0), Some(1)]);
    assert!(trace.events().iter().all(|event| messages.push(event).is_none()));
}

#[test]
fn perfetto_trace_joins_both_cards() {
    let mut messages = Messages::new(vec![Some(0), Some(1)]);
    let mut written = Vec::new();
    let mut perfetto = Perfetto::new(&mut written, &["card0 (clan)".into(), "card1 (clan)".into()]).unwrap();
    for event in sent().events() {
        perfetto.event(&event).unwrap();
        messages.push(&event).iter().for_each(|message| perfetto.message(message).unwrap());
    }
    perfetto.finish().unwrap();
    let trace: Value = serde_json::from_slice(&written).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    assert_eq!(of("M").len(), 2 * (1 + 3), "names of processes and tracks");
    let ends = [of("s"), of("f")].map(|flow| (flow[0]["pid"].clone(), flow[0]["ts"].as_f64().unwrap()));
    assert_eq!(ends, [(Value::from(1), 10.0), (Value::from(2), 17.0)]);
    let lasts = |name: &str| {
        let slice = of("X").into_iter().find(|slice| slice["name"].as_str().unwrap().starts_with(name));
        slice.unwrap()["dur"].as_f64().unwrap()
    };
    assert_eq!((lasts("write"), lasts("arrive")), (1.0, 5.0));
    // Each step of a flow lies in a slice of its track: otherwise Perfetto shows no arrow.
    for step in [of("s"), of("t"), of("f")].concat() {
        let inside = of("X").iter().any(|slice| {
            let (start, length) = (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap());
            let time = step["ts"].as_f64().unwrap();
            slice["pid"] == step["pid"]
                && slice["tid"] == step["tid"]
                && (start..=start + length).contains(&time)
        });
        assert!(inside, "{step} is in no slice");
    }
}

/// `trace_processor` drops a slice that begins in another one of its track and ends after it.
#[test]
fn slices_of_a_track_nest() {
    let event = |(time, kind): &(u64, Kind)| Event {
        time: *time,
        card: 0,
        kind: *kind,
        inner: false,
        what: "event",
        subject: String::new(),
        number: 0,
        fields: Vec::new(),
        bytes: Vec::new(),
    };
    let happened = [
        (100, Kind::RegisterRead),
        (200, Kind::RegisterRead),
        (200, Kind::RegisterRead),
        (250, Kind::RegisterWrite),
        (260, Kind::DmaRead),
        (270, Kind::LateRead),
        (280, Kind::Done),
        (290, Kind::Arrive),
        (300, Kind::Send),
        (310, Kind::DmaWrite),
        // What ended the packet before is missing.
        (400, Kind::Arrive),
        (410, Kind::Send),
    ];
    let mut written = Vec::new();
    let mut perfetto = Perfetto::new(&mut written, &["card0 (clan)".into()]).unwrap();
    happened.iter().for_each(|happened| perfetto.event(&event(happened)).unwrap());
    perfetto.finish().unwrap();
    let trace: Value = serde_json::from_slice(&written).unwrap();
    let nanoseconds = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
    let slices: Vec<_> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|slice| {
            let start = nanoseconds(&slice["ts"]);
            (slice["tid"].clone(), start, start + nanoseconds(&slice["dur"]))
        })
        .collect();
    assert_eq!(slices.len(), happened.len() - 1, "all but the end of a write");
    for (index, (track, start, end)) in slices.iter().enumerate() {
        for (other, from, to) in &slices[index + 1..] {
            let is_apart = end <= from || to <= start;
            let is_inside = (start <= from && to <= end) || (from <= start && end <= to);
            assert!(track != other || is_apart || is_inside, "{track}: {start}..{end} and {from}..{to}");
        }
    }
}

#[test]
fn json_objects_have_numbers_and_names() {
    let mut trace = Trace::new();
    trace.put(1, Kind::RegisterRead, (0x20, 1), &[]);
    let [event] = &trace.events()[..] else { panic!("one event") };
    let object = text::object(event, "card1").unwrap();
    assert_eq!(object["event"], "read");
    assert_eq!((object["time"].as_u64(), object["card"].as_str()), (Some(1000), Some("card1")));
    assert_eq!(
        (&object["fields"]["value"], &object["meanings"]["value"]),
        (&1.into(), &"ULN_CONTROL_ENABLE".into())
    );
}

/// Splits a pcapng file into its blocks, by type.
fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let mut blocks = Vec::new();
    while !file.is_empty() {
        let length = word(&file[4..]) as usize;
        assert_eq!(length % 4, 0);
        assert_eq!(word(&file[length - 4..]) as usize, length, "length at both ends");
        blocks.push((word(file), file[8..length - 4].to_vec()));
        file = &file[length..];
    }
    blocks
}

#[test]
fn capture_has_an_interface_for_each_card() {
    let interface = |name: &str, host| Interface {
        name: name.into(),
        host: Some(host),
        protocol: Protocol::parse(3).unwrap(),
    };
    let mut written = Vec::new();
    let cards = vec![interface("card0", 0), interface("card1", 1)];
    let mut capture = Capture::new(&mut written, cards, 1_000_000_000).unwrap();
    sent().events().iter().for_each(|event| capture.event(event).unwrap());
    let blocks = blocks(&written);
    let kinds: Vec<u32> = blocks.iter().map(|block| block.0).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 6, 6]);
    let packet = |block: &[u8]| {
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
        let time = u64::from(word(4)) << 32 | u64::from(word(8));
        (word(0), time, word(12), word(16), block[20..36].to_vec())
    };
    // Destination 1, source 0, version 1, protocol 3.
    let bytes = [&[1, 0, 0, 0, 1, 3, 0, 0][..], &[2; 8]].concat();
    assert_eq!(packet(&blocks[3].1), (0, 1_000_013_000, 16, 16, bytes.clone()));
    assert_eq!(packet(&blocks[4].1), (1, 1_000_014_000, 16, 16, bytes));
}

#[test]
fn dissector_names_every_field() {
    let models = [Dissected { model: "clan", protocol: 3, fields: PACKET }];
    let text = dissector(&models);
    assert!(text.contains("names[3] = \"clan\""), "{text}");
    assert!(
        text.contains("name = \"tag\", offset = 4, bytes = 4, field = ProtoField.uint32(\"hamlyn_clan.tag\"")
    );
    assert!(text.contains("[2] = \"READ\""), "{text}");
}
