//! A station, its trace socket, and readers.

use std::path::{Path, PathBuf};
use std::thread;

use hamlyn_card::ports::{Packet, VolatileSlice};
use hamlyn_replay::step::StepKind;
use hamlyn_trace::event::Event;
use hamlyn_trace::record::{Kind, Wish, split};
use hamlyn_trace::timeline::Timeline;

use super::{Source, TraceServer};
use crate::station::Station;

/// A station without a machine.
struct Traced {
    folder: tempfile::TempDir,
    station: Station,
    server: TraceServer,
}

impl Traced {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let station = Station::without_machine(folder.path());
        let server = TraceServer::bind_in(folder.path(), "card").unwrap();
        Self { folder, station, server }
    }

    fn socket(&self) -> PathBuf {
        let mut sockets = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        sockets.find(|path| path.extension().is_some_and(|ending| ending == "tap")).unwrap()
    }

    fn serve(&mut self) {
        self.server.serve(vec![("card0", &mut self.station)]);
    }

    /// Connects a reader. The server's answer needs calls of `serve` meanwhile.
    fn open(&mut self, wish: Wish) -> anyhow::Result<Source> {
        let socket = self.socket();
        let reader = thread::spawn(move || Source::open(Path::new(&socket), wish));
        while !reader.is_finished() {
            self.serve();
            thread::yield_now();
        }
        reader.join().unwrap()
    }

    fn packet(&mut self, source: u16, mut bytes: Vec<u8>) {
        let bytes = VolatileSlice::from(&mut bytes[..]).into();
        self.station.packet_arrived(&Packet { source, bytes });
    }
}

fn events(source: &mut Source) -> Vec<Event> {
    let mut timeline = Timeline::default();
    timeline.add(&source.hello.cards[0], &[]);
    while let Some(record) = source.readers[0].take().unwrap() {
        timeline.push(0, &record);
    }
    std::iter::from_fn(|| timeline.next_before(u64::MAX)).collect()
}

fn kinds(source: &mut Source) -> Vec<Kind> {
    events(source).iter().map(|event| event.kind).collect()
}

#[test]
fn reader_sees_what_happens_from_then_on() {
    let mut traced = Traced::new();
    traced.packet(3, vec![7; 64]);
    let mut source = traced.open(Wish::ALL).unwrap();
    let card = source.hello.cards[0].clone();
    assert_eq!((card.name.as_str(), card.model.as_str(), card.host), ("card0", "hamlyn", Some(1)));
    traced.packet(2, vec![7; 200]);
    traced.station.link_changed();
    let events = events(&mut source);
    let seen: Vec<_> = events.iter().map(|event| (event.kind, event.number)).collect();
    let discarded = card.counters.iter().position(|name| name == "discarded").unwrap() as u64;
    let wanted = [
        (Kind::Arrive, 2),
        (Kind::Counter, discarded),
        (Kind::Done, 0),
        (Kind::Link, 1),
        (Kind::Interrupt, 0),
    ];
    assert_eq!(seen, wanted);
    assert_eq!((events[0].field("bytes"), events[0].bytes.len()), (Some(200), Wish::HEADS as usize));
}

#[test]
fn reader_chooses_kinds_and_bytes() {
    let mut traced = Traced::new();
    let mut source = traced.open(Wish::of(&[Kind::Arrive], 1000)).unwrap();
    traced.packet(2, vec![7; 500]);
    traced.station.link_changed();
    let events = events(&mut source);
    assert_eq!((events.len(), events[0].bytes.len()), (1, 500));
    source.readers[0].set_wish(Wish::of(&[Kind::Link], 0).to_word());
    traced.packet(2, vec![7; 500]);
    traced.station.link_changed();
    assert_eq!(kinds(&mut source), [Kind::Link]);
}

#[test]
fn second_reader_is_refused() {
    let mut traced = Traced::new();
    let mut first = traced.open(Wish::ALL).unwrap();
    let refusal = traced.open(Wish::ALL).unwrap_err().to_string();
    assert!(refusal.contains("another reader traces it"), "{refusal}");
    traced.packet(2, vec![7; 64]);
    assert!(kinds(&mut first).contains(&Kind::Arrive));
}

#[test]
fn disconnected_reader_makes_room_for_another() {
    let mut traced = Traced::new();
    drop(traced.open(Wish::ALL).unwrap());
    let mut next = traced.open(Wish::ALL).unwrap();
    traced.packet(2, vec![7; 64]);
    assert!(kinds(&mut next).contains(&Kind::Arrive));
}

#[test]
fn slow_reader_learns_how_much_is_missing() {
    let mut traced = Traced::new();
    let mut source = traced.open(Wish::of(&[Kind::Arrive], 60_000)).unwrap();
    let packets = 400;
    (0..packets).for_each(|_| traced.packet(2, vec![7; 60_000]));
    let seen = kinds(&mut source).len() as u64;
    assert!(seen < packets, "{seen}");
    traced.packet(3, vec![7; 64]);
    let after: Vec<_> = events(&mut source).iter().map(|event| (event.kind, event.number)).collect();
    assert_eq!(after, [(Kind::Lost, packets - seen), (Kind::Arrive, 3)]);
}

#[test]
fn end_of_process_ends_the_trace() {
    let mut traced = Traced::new();
    let source = traced.open(Wish::ALL).unwrap();
    assert!(!source.has_ended());
    drop(traced);
    // A porter closes the connection.
    while !source.has_ended() {
        thread::yield_now();
    }
}

/// Takes the kinds of the steps in the ring.
fn steps(source: &mut Source) -> Vec<StepKind> {
    let mut kinds = Vec::new();
    while let Some(batch) = source.readers[0].take().unwrap() {
        kinds.extend(split(&batch).filter_map(|(record, _)| StepKind::of(record.kind)));
    }
    kinds
}

#[test]
fn recording_begins_at_the_next_reset() {
    let mut traced = Traced::new();
    let mut source = traced.open(Wish::RECORDING).unwrap();
    traced.packet(2, vec![7; 64]);
    assert_eq!(steps(&mut source), []);
    traced.station.reset();
    traced.packet(2, vec![7; 64]);
    let calls: Vec<_> = steps(&mut source).into_iter().filter(|kind| kind.is_call()).collect();
    assert_eq!(calls, [StepKind::LinkChanged, StepKind::Reset, StepKind::PacketArrived]);
    traced.station.reset();
    let calls: Vec<_> = steps(&mut source).into_iter().filter(|kind| kind.is_call()).collect();
    assert_eq!(calls, [StepKind::Reset], "it goes on");
}

#[test]
fn recording_ends_if_its_reader_stops() {
    let mut traced = Traced::new();
    let mut source = traced.open(Wish::RECORDING).unwrap();
    traced.station.reset();
    let packets = 400;
    (0..packets).for_each(|_| traced.packet(2, vec![7; 60_000]));
    let seen = steps(&mut source);
    let whole = seen.iter().filter(|kind| **kind == StepKind::PacketArrived).count();
    assert!(0 < whole && whole < packets, "{whole}");
    assert_eq!(seen[seen.len() - 2..], [StepKind::Return, StepKind::Broken], "no call is there in part");
    traced.packet(2, vec![7; 64]);
    traced.station.reset();
    assert_eq!(steps(&mut source), []);
}
