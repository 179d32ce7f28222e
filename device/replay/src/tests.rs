//! Recordings of a card that uses all of its ports.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use hamlyn_card::card::{Bar, Card, Identity, Place, Progress, Reading};
use hamlyn_card::ports::{
    Clock, Dma, DmaFault, Interrupt, Link, Operation, Packet, Ports, VolatileSlice, Windows,
};
use hamlyn_trace::hello::CardName;
use hamlyn_trace::record::Record;
use zerocopy::IntoBytes;

use crate::compare::{DriverView, difference};
use crate::events::Namer;
use crate::file::{Call, FileError, RecordingReader, RecordingWriter};
use crate::player::{Difference, Player};
use crate::record::{Calls, RecordedCard};
use crate::step::{Step, StepKind, step};

/// How a card differs from the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    OtherValue,
    OtherReturn,
    OneMoreWrite,
    OneMoreRead,
    OneInterruptLess,
    Panics,
}

/// A card that does a bit of everything at each write of a register.
struct Busybody(Change);

impl Card for Busybody {
    fn identity(&self) -> Identity {
        Identity {
            protocol: 0,
            largest_packet: 64,
            ordered: true,
            vendor: 1,
            device: 2,
            class: 0,
            bars: vec![Bar::registers(0)],
            vectors: 1,
            posted: Vec::new(),
            snooped: None,
        }
    }

    fn register_read(&mut self, _: &Ports<'_>, _: u8, offset: u64, _: u8) -> Reading {
        Reading::Now(if self.0 == Change::OtherReturn { offset - 1 } else { offset })
    }

    fn register_write(&mut self, ports: &Ports<'_>, _: u8, offset: u64, _: u8, value: u64) {
        let mut bytes = [0; 8];
        let slice = VolatileSlice::from(&mut bytes[..]);
        if ports.dma.read(value, slice).is_err() {
            let is_there = ports.dma.lend_to_write(value, 8).is_ok();
            return ports.interrupt.raise(1 + u16::from(is_there));
        }
        if self.0 == Change::Panics {
            panic!("write of {offset}");
        }
        if self.0 == Change::OneMoreRead {
            let _ = ports.window(2).load(8);
            // This one the recorded card had seen.
            let mut again = [0; 8];
            ports.dma.lend(value, 8).unwrap().copy_to(&mut again[..]);
            assert_eq!(again, bytes);
        }
        let lent = ports.dma.lend(value + 4096, 16).unwrap();
        ports.dma.write(value + 8192, lent).unwrap();
        if self.0 == Change::OneMoreWrite {
            ports.dma.publish(value, 1).unwrap();
        }
        let old = ports.dma.fetch(value + 8, Operation::Add(3)).unwrap();
        let word = ports.window(2).load(4);
        let more = u32::from(self.0 == Change::OtherValue);
        ports.dma.publish(value + 16, word + old as u32 + ports.clock.now().as_secs() as u32 + more).unwrap();
        ports.window(2).store(0, 7);
        if self.0 != Change::OneInterruptLess {
            ports.interrupt.raise(0);
        }
    }

    fn transmit(&mut self, _: &Ports<'_>, link: &mut dyn Link) -> Progress {
        let mut packet = [link.resumptions() as u8; 4];
        match link.is_stopped(3) || !link.send(3, &[VolatileSlice::from(&mut packet[..])]) {
            true => Progress::LinkFull,
            false => Progress::Worked,
        }
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        let mut bytes = packet.bytes;
        let piece = bytes.take(64).unwrap();
        ports.dma.write(packet.source.into(), piece).unwrap();
    }

    fn sleep(&mut self, _: &Ports<'_>) -> bool {
        true
    }

    fn alarm(&self) -> Option<Duration> {
        Some(Duration::from_secs(9))
    }

    fn tick(&mut self, _: &Ports<'_>) {}

    fn link_changed(&mut self, _: &Ports<'_>, _: Option<Place>) {}

    fn reset(&mut self, _: &Ports<'_>) {}

    fn is_enabled(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A machine whose memory differs at each look, and a link that is full at each second packet.
#[derive(Default)]
struct Machine(RefCell<u8>);

impl Machine {
    fn next(&self) -> u8 {
        *self.0.borrow_mut() += 1;
        *self.0.borrow()
    }
}

impl Dma for Machine {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        if address == 0xbad {
            return Err(DmaFault { address, length: into.len() as u64 });
        }
        into.copy_from(&vec![self.next(); into.len()]);
        Ok(())
    }

    fn lend(&self, _: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        Ok(VolatileSlice::from(Box::leak(vec![self.next(); length].into_boxed_slice())))
    }

    fn write(&self, _: u64, _: VolatileSlice<'_>) -> Result<(), DmaFault> {
        Ok(())
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        if address == 0xbad {
            Err(DmaFault { address, length: length as u64 })
        } else {
            self.lend(address, length).map(Some)
        }
    }

    fn publish(&self, _: u64, _: u32) -> Result<(), DmaFault> {
        Ok(())
    }

    fn fetch(&self, _: u64, _: Operation) -> Result<u64, DmaFault> {
        Ok(self.next().into())
    }
}

impl Windows for Machine {
    fn load_from(&self, _: u8, _: u64) -> u32 {
        self.next().into()
    }

    fn store_to(&self, _: u8, _: u64, _: u32) {}

    fn copy_out_of(&self, _: u8, _: u64, _: &mut [u8]) {}

    fn clear_in(&self, _: u8, _: u64, _: u64) {}
}

impl Interrupt for Machine {
    fn raise(&self, _: u16) {}
}

impl Clock for Machine {
    fn now(&self) -> Duration {
        Duration::from_secs(self.next().into())
    }
}

impl Link for Machine {
    fn send(&mut self, _: u16, _: &[VolatileSlice<'_>]) -> bool {
        self.next() % 2 == 0
    }

    fn is_stopped(&self, _: u16) -> bool {
        false
    }

    fn resumptions(&self) -> u64 {
        self.next().into()
    }
}

/// Records calls of the card by a driver whose memory begins at `page`.
fn recorded(page: u64) -> Vec<Call> {
    let (machine, calls) = (Machine::default(), Calls::default());
    let ports = Ports { dma: &machine, windows: &machine, interrupt: &machine, clock: &machine };
    let mut card = Busybody(Change::None);
    let mut card = RecordedCard::new(&mut card, &calls);
    card.reset(&ports);
    card.register_read(&ports, 0, 4, 4);
    card.register_write(&ports, 0, 0x48, 4, page);
    card.register_write(&ports, 0, 0x48, 4, 0xbad);
    for _ in 0..3 {
        card.transmit(&ports, &mut Machine::default());
    }
    let mut bytes = [5; 32];
    card.packet_arrived(&ports, &Packet { source: 2, bytes: VolatileSlice::from(&mut bytes[..]).into() });
    card.sleep(&ports);
    calls.take()
}

const PAGE: u64 = 0x20_0000;

fn replayed(change: Change) -> (Vec<Difference>, usize) {
    let mut player = Player::new(Box::new(Busybody(change)));
    let (mut differences, mut unforeseen) = (Vec::new(), 0);
    for call in recorded(PAGE) {
        let played = player.play(&call);
        differences.extend(played.differences);
        unforeseen += played.unforeseen.len();
    }
    (differences, unforeseen)
}

fn card() -> CardName {
    CardName {
        name: "card0".into(),
        model: "clan".into(),
        host: Some(1),
        counters: Vec::new(),
        regions: Vec::new(),
        settings: BTreeMap::from([("termini".into(), 7)]),
    }
}

#[test]
fn same_card_does_the_same_again() {
    assert_eq!(replayed(Change::None), (Vec::new(), 0));
}

#[test]
fn changed_card_differs_in_its_first_changed_step() {
    let (differences, _) = replayed(Change::OtherValue);
    let [Difference::Step { now: Some(now), recorded: Some(recorded) }] = &differences[..] else {
        panic!("{differences:?}")
    };
    assert_eq!((now.kind, now.record.b), (StepKind::DmaPublish, recorded.record.b + 1));
    let (differences, unforeseen) = replayed(Change::OneMoreWrite);
    let [Difference::Step { now: Some(now), .. }] = &differences[..] else { panic!("{differences:?}") };
    assert_eq!((now.record.a, unforeseen), (PAGE, 1));
    let (differences, _) = replayed(Change::OneInterruptLess);
    let [Difference::Step { now: None, recorded: Some(recorded) }] = &differences[..] else {
        panic!("{differences:?}")
    };
    assert_eq!((recorded.kind, recorded.record.a), (StepKind::Raise, 0));
    let (differences, _) = replayed(Change::OtherReturn);
    assert!(matches!(differences[..], [Difference::Return { now, .. }] if now.value == 3), "{differences:?}");
}

#[test]
fn new_look_finds_what_was_there_last() {
    assert_eq!(replayed(Change::OneMoreRead), (Vec::new(), 2));
}

#[test]
fn panic_of_the_card_is_a_difference() {
    let mut player = Player::new(Box::new(Busybody(Change::Panics)));
    let differences: Vec<_> =
        recorded(PAGE)[..3].iter().flat_map(|call| player.play(call).differences).collect();
    assert_eq!(differences, [Difference::Panic("write of 72".into())]);
    assert!(player.has_panicked());
}

#[test]
fn file_keeps_card_and_calls() {
    let mut writer = RecordingWriter::new(Vec::new(), &card()).unwrap();
    let calls = recorded(PAGE);
    calls.iter().try_for_each(|call| writer.push_call(call)).unwrap();
    let file = writer.finish().unwrap();
    let mut reader = RecordingReader::new(&file[..]).unwrap();
    assert_eq!(*reader.card(), card());
    let read: Vec<Call> = std::iter::from_fn(|| reader.next_call().unwrap()).collect();
    assert_eq!((read, reader.is_cut()), (calls, false));
    // Its writer was killed.
    let mut reader = RecordingReader::new(&file[..file.len() - 20]).unwrap();
    while reader.next_call().unwrap().is_some() {}
    assert!(reader.is_cut());
}

#[test]
fn unfinished_call_has_no_return() {
    let mut writer = RecordingWriter::new(Vec::new(), &card()).unwrap();
    let tick = step(StepKind::Tick, 0, 0);
    [tick, step(StepKind::Clock, 7, 0), tick]
        .iter()
        .try_for_each(|step| writer.push(step.as_bytes()))
        .unwrap();
    let file = writer.finish().unwrap();
    let mut reader = RecordingReader::new(&file[..]).unwrap();
    let calls: Vec<Call> = std::iter::from_fn(|| reader.next_call().unwrap()).collect();
    let shapes: Vec<_> = calls.iter().map(|call| (call.number, call.steps.len(), call.returned)).collect();
    assert_eq!(shapes, [(1, 1, None), (2, 0, None)]);
    let mut player = Player::new(Box::new(Busybody(Change::None)));
    assert_eq!(player.play(&calls[0]).differences, [Difference::Survived]);
}

#[test]
fn other_files_are_refused_with_the_reason() {
    let refused = |bytes: &[u8]| RecordingReader::new(bytes).err().map(|error| error.to_string());
    assert!(refused(b"\x7fELF").is_some_and(|error| error.starts_with("is not a recording")));
    assert!(refused(b"").is_some_and(|error| error.starts_with("is not a recording")));
    let of = |steps: &[Record]| {
        let mut writer = RecordingWriter::new(Vec::new(), &card()).unwrap();
        steps.iter().try_for_each(|step| writer.push(step.as_bytes())).unwrap();
        let file = writer.finish().unwrap();
        RecordingReader::new(&file[..]).unwrap().next_call().map(drop).map_err(|error| error.to_string())
    };
    let tick = step(StepKind::Tick, 0, 0);
    assert_eq!(
        of(&[step(StepKind::Raise, 0, 0)]),
        Err("step 1 has the kind 54, which cannot come there".into())
    );
    let long = Record { length: 300_000, ..step(StepKind::DmaRead, 0, 0) };
    assert_eq!(of(&[tick, long]), Err("step 2 has 300000 bytes (limit 262144)".into()));
    let unknown = Record { kind: 99, ..tick };
    let mut endless = RecordingWriter::new(Vec::new(), &card()).unwrap();
    endless.push(tick.as_bytes()).unwrap();
    for _ in 0..300 {
        endless.push(Record { length: 256 << 10, ..step(StepKind::DmaRead, 0, 0) }.as_bytes()).unwrap();
        endless.push(&[0; 256 << 10]).unwrap();
    }
    let file = endless.finish().unwrap();
    let error = RecordingReader::new(&file[..]).unwrap().next_call().unwrap_err().to_string();
    assert_eq!(error, "call 1 has more than 1048576 steps or 67108864 bytes");
    assert_eq!(of(&[unknown]), Err("step 1 has the kind 99, which cannot come there".into()));
    assert_eq!(of(&[tick, step(StepKind::Broken, 0, 0)]), Ok(()));
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    std::io::Write::write_all(&mut encoder, b"{\"version\":77}\n").unwrap();
    let error = RecordingReader::new(&encoder.finish().unwrap()[..]).err();
    assert!(matches!(error, Some(FileError::Version(77))), "{error:?}");
}

fn view(calls: &[Call]) -> DriverView {
    let mut namer = Namer::new(&card(), &[]);
    let mut view = DriverView::default();
    calls.iter().flat_map(|call| namer.events(call, &[])).for_each(|event| view.push(&event));
    view
}

#[test]
fn drivers_are_compared_without_their_addresses() {
    let one = view(&recorded(PAGE));
    assert!(!one.is_empty());
    assert_eq!(difference(&one, &view(&recorded(PAGE + 0x1000)), ["a", "b"]), "");
    let mut other = recorded(PAGE);
    other.insert(2, other[1].clone());
    assert_eq!(difference(&one, &view(&other), ["a", "b"]), "", "polling counts once");
    let wrong = Step { record: Record { b: 7, ..other[4].step.record }, ..other[4].step.clone() };
    other[4].step = wrong;
    let text = difference(&one, &view(&other), ["a", "b"]);
    assert!(text.contains("-write ULN_REG_COMMAND_GO 2989\n+write ULN_REG_COMMAND_GO 7\n"), "{text}");
}
