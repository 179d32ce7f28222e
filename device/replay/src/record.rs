//! A card whose calls are recorded, with all that it sees and does.
//!
//! The card gets copies of what others could change meanwhile, so that the recording has exactly
//! what the card saw. Memory that it writes is not lent to it; it then writes by calls, as
//! [`Dma::lend_to_write`] says.

use std::cell::RefCell;
use std::time::Duration;

use bumpalo::Bump;
use hamlyn_card::card::{Card, Identity, Place, Progress, Reading, Region, Store};
use hamlyn_card::packet::PacketField;
use hamlyn_card::ports::{
    Clock, Dma, DmaFault, Interrupt, Link, Operation, Packet, Ports, VolatileSlice, Windows,
};
use hamlyn_trace::record::Record;

use crate::file::Call;
use crate::operation;
use crate::ports::collect;
use crate::step::{MOST_LENT, Returned, Step, StepKind, of_progress, of_reading, step};

/// Where a recording goes.
pub trait Sink {
    /// Takes a call, before it is made.
    fn call(&self, call: Record, bytes: &[VolatileSlice<'_>]);

    /// Takes what the card sees or does in a call, and the call's return.
    fn step(&self, step: Record, bytes: &[VolatileSlice<'_>]);

    /// Learns that the call has ended, by its return or by a panic.
    fn end(&self);
}

/// A recording in memory.
#[derive(Debug, Default)]
pub struct Calls(RefCell<Vec<Call>>);

impl Calls {
    /// Takes the calls since the last time.
    pub fn take(&self) -> Vec<Call> {
        self.0.take()
    }

    fn of(record: Record, bytes: &[VolatileSlice<'_>]) -> Option<Step> {
        let bytes = collect(bytes);
        let record = Record { length: bytes.len() as u32, ..record };
        Some(Step { kind: StepKind::of(record.kind)?, record, bytes })
    }
}

impl Sink for Calls {
    fn call(&self, call: Record, bytes: &[VolatileSlice<'_>]) {
        let mut calls = self.0.borrow_mut();
        let number = calls.len() as u64 + 1;
        let call =
            Calls::of(call, bytes).map(|step| Call { number, step, steps: Vec::new(), returned: None });
        calls.extend(call);
    }

    fn step(&self, step: Record, bytes: &[VolatileSlice<'_>]) {
        let mut calls = self.0.borrow_mut();
        let Some(call) = calls.last_mut() else { return };
        match Calls::of(step, bytes) {
            Some(step) if step.kind == StepKind::Return => {
                call.returned = Some(Returned::of_record(&step.record));
            }
            step => call.steps.extend(step),
        }
    }

    fn end(&self) {}
}

/// The ports of one call.
struct RecordedPorts<'a> {
    ports: Ports<'a>,
    sink: &'a dyn Sink,
    /// What is lent, until the call ends.
    lent: Bump,
}

impl<'a> RecordedPorts<'a> {
    fn new(ports: Ports<'a>, sink: &'a dyn Sink) -> Self {
        Self { ports, sink, lent: Bump::new() }
    }

    fn ports(&self) -> Ports<'_> {
        Ports { dma: self, windows: self, interrupt: self, clock: self }
    }

    /// Notes whether memory could be lent for writing, and lends none.
    fn lend_none<'b, T>(
        &self,
        address: u64,
        length: usize,
        lent: Result<T, DmaFault>,
    ) -> Result<Option<VolatileSlice<'b>>, DmaFault> {
        self.note(failed(step(StepKind::DmaCheck, address, length as u64), &lent), &[]);
        lent.map(|_| None)
    }

    fn note(&self, record: Record, bytes: &[VolatileSlice<'_>]) {
        self.sink.step(record, bytes);
    }
}

impl Drop for RecordedPorts<'_> {
    /// A card that panics leaves what it did until then.
    fn drop(&mut self) {
        self.sink.end();
    }
}

fn failed<T, E>(record: Record, result: &Result<T, E>) -> Record {
    Record { failed: result.is_err().into(), ..record }
}

impl Dma for RecordedPorts<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let read = self.ports.dma.read(address, into);
        let record = failed(step(StepKind::DmaRead, address, into.len() as u64), &read);
        self.note(record, if read.is_ok() { std::slice::from_ref(&into) } else { &[] });
        read
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        if length > MOST_LENT {
            return Err(DmaFault { address, length: length as u64 });
        }
        let lent = self.ports.dma.lend(address, length).map(|lent| {
            let copy = self.lent.alloc_slice_fill_copy(length, 0);
            lent.copy_to(&mut *copy);
            VolatileSlice::from(copy)
        });
        let record = failed(step(StepKind::DmaLend, address, length as u64), &lent);
        self.note(record, lent.as_ref().ok().map_or(&[], std::slice::from_ref));
        lent
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let written = self.ports.dma.write(address, from);
        self.note(failed(step(StepKind::DmaWrite, address, from.len() as u64), &written), &[from]);
        written
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        let published = self.ports.dma.publish(address, value);
        self.note(failed(step(StepKind::DmaPublish, address, value.into()), &published), &[]);
        published
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.lend_none(address, length, self.ports.dma.lend_to_write(address, length))
    }

    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.lend_none(address, length, self.ports.dma.lend_to_change(address, length))
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        let old = self.ports.dma.fetch(address, operation);
        let record = step(StepKind::DmaFetch, address, old.unwrap_or_default());
        let mut bytes = operation::to_bytes(operation);
        self.note(failed(record, &old), &[VolatileSlice::from(&mut bytes[..])]);
        old
    }
}

impl Windows for RecordedPorts<'_> {
    fn load_from(&self, bar: u8, offset: u64) -> u32 {
        let value = self.ports.windows.load_from(bar, offset);
        self.note(Record { bar, ..step(StepKind::WindowLoad, offset, value.into()) }, &[]);
        value
    }

    fn store_to(&self, bar: u8, offset: u64, value: u32) {
        self.ports.windows.store_to(bar, offset, value);
        self.note(Record { bar, ..step(StepKind::WindowStore, offset, value.into()) }, &[]);
    }

    fn copy_out_of(&self, bar: u8, offset: u64, into: &mut [u8]) {
        self.ports.windows.copy_out_of(bar, offset, into);
        let record = Record { bar, ..step(StepKind::WindowCopy, offset, into.len() as u64) };
        self.note(record, &[VolatileSlice::from(into)]);
    }

    fn clear_in(&self, bar: u8, offset: u64, length: u64) {
        self.ports.windows.clear_in(bar, offset, length);
        self.note(Record { bar, ..step(StepKind::WindowClear, offset, length) }, &[]);
    }
}

impl Interrupt for RecordedPorts<'_> {
    fn raise(&self, vector: u16) {
        self.note(step(StepKind::Raise, vector.into(), 0), &[]);
        self.ports.interrupt.raise(vector);
    }
}

impl Clock for RecordedPorts<'_> {
    fn now(&self) -> Duration {
        let now = self.ports.clock.now();
        self.note(step(StepKind::Clock, now.as_nanos() as u64, 0), &[]);
        now
    }
}

struct RecordedLink<'a> {
    link: &'a mut dyn Link,
    sink: &'a dyn Sink,
}

impl Link for RecordedLink<'_> {
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        let length: usize = packet.iter().map(VolatileSlice::len).sum();
        let sent = self.link.send(destination, packet);
        let record = step(StepKind::Send, destination.into(), length as u64);
        // A packet that found no room comes again.
        self.sink.step(Record { failed: (!sent).into(), ..record }, if sent { packet } else { &[] });
        sent
    }

    fn is_stopped(&self, destination: u16) -> bool {
        let stopped = self.link.is_stopped(destination);
        self.sink.step(step(StepKind::IsStopped, destination.into(), stopped.into()), &[]);
        stopped
    }

    fn set_groups(&mut self, groups: u64) {
        self.sink.step(step(StepKind::SetGroups, groups, 0), &[]);
        self.link.set_groups(groups);
    }

    fn resumptions(&self) -> u64 {
        let resumptions = self.link.resumptions();
        self.sink.step(step(StepKind::Resumptions, resumptions, 0), &[]);
        resumptions
    }
}

/// A card whose calls are recorded.
pub struct RecordedCard<'a> {
    card: &'a mut dyn Card,
    sink: &'a dyn Sink,
}

impl<'a> RecordedCard<'a> {
    /// Records calls of this card.
    pub fn new(card: &'a mut dyn Card, sink: &'a dyn Sink) -> Self {
        Self { card, sink }
    }

    /// Makes a call, and records it with its result.
    fn make<T>(
        &mut self,
        call: Record,
        bytes: &[VolatileSlice<'_>],
        ports: &Ports<'_>,
        verb: impl FnOnce(&mut dyn Card, &Ports<'_>) -> T,
        result: impl FnOnce(&T) -> (u64, bool),
    ) -> T {
        self.sink.call(call, bytes);
        // Dropped after the return is there, or by a panic: then the sink learns of the call's end.
        let ports = RecordedPorts::new(*ports, self.sink);
        let value = verb(self.card, &ports.ports());
        let (number, is_late) = result(&value);
        self.sink.step(Returned::of(self.card, number, is_late).to_record(), &[]);
        value
    }

    /// Makes a call without a result.
    fn tell(&mut self, call: Record, ports: &Ports<'_>, verb: impl FnOnce(&mut dyn Card, &Ports<'_>)) {
        self.make(call, &[], ports, verb, |()| (0, false));
    }
}

impl Card for RecordedCard<'_> {
    fn identity(&self) -> Identity {
        self.card.identity()
    }

    fn register_read(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading {
        let call = Record { bar, width, ..step(StepKind::RegisterRead, offset, 0) };
        let verb = |card: &mut dyn Card, ports: &Ports<'_>| card.register_read(ports, bar, offset, width);
        self.make(call, &[], ports, verb, |reading| of_reading(*reading))
    }

    fn late_reading(&mut self) -> Option<(u64, u64)> {
        let late = self.card.late_reading();
        if let Some((number, value)) = late {
            self.sink.call(step(StepKind::LateReading, number, value), &[]);
        }
        late
    }

    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64) {
        let call = Record { bar, width, ..step(StepKind::RegisterWrite, offset, value) };
        self.tell(call, ports, |card, ports| card.register_write(ports, bar, offset, width, value));
    }

    fn store_seen(&mut self, ports: &Ports<'_>, store: &Store) {
        let mut bytes = store.bytes().to_vec();
        let bytes = [VolatileSlice::from(&mut bytes[..])];
        let verb = |card: &mut dyn Card, ports: &Ports<'_>| card.store_seen(ports, store);
        self.make(step(StepKind::StoreSeen, store.address, 0), &bytes, ports, verb, |()| (0, false));
    }

    fn takes_stores(&self) -> bool {
        self.card.takes_stores()
    }

    fn make_room(&mut self, ports: &Ports<'_>) -> bool {
        let verb = |card: &mut dyn Card, ports: &Ports<'_>| card.make_room(ports);
        self.make(step(StepKind::MakeRoom, 0, 0), &[], ports, verb, |gives_up| ((*gives_up).into(), false))
    }

    fn watch_change(&mut self) -> Option<(u64, bool)> {
        let change = self.card.watch_change();
        if let Some((page, on)) = change {
            self.sink.call(step(StepKind::WatchChange, page, on.into()), &[]);
        }
        change
    }

    fn snooping_changed(&mut self, ports: &Ports<'_>, snoops: bool) {
        let call = step(StepKind::SnoopingChanged, snoops.into(), 0);
        self.tell(call, ports, |card, ports| card.snooping_changed(ports, snoops));
    }

    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        let link = &mut RecordedLink { link, sink: self.sink };
        let verb = |card: &mut dyn Card, ports: &Ports<'_>| card.transmit(ports, link);
        let result = |progress: &Progress| (of_progress(*progress), false);
        self.make(step(StepKind::Transmit, 0, 0), &[], ports, verb, result)
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        let (source, mut pieces) = (packet.source, packet.bytes);
        let mut bytes = vec![0; pieces.len()];
        pieces.take_into(&mut bytes);
        let bytes = VolatileSlice::from(&mut bytes[..]);
        let packet = Packet { source, bytes: bytes.into() };
        let verb = |card: &mut dyn Card, ports: &Ports<'_>| card.packet_arrived(ports, &packet);
        self.make(step(StepKind::PacketArrived, source.into(), 0), &[bytes], ports, verb, |()| (0, false));
    }

    fn takes_packets(&self) -> bool {
        self.card.takes_packets()
    }

    fn sleep(&mut self, ports: &Ports<'_>) -> bool {
        let verb = |card: &mut dyn Card, ports: &Ports<'_>| card.sleep(ports);
        self.make(step(StepKind::Sleep, 0, 0), &[], ports, verb, |sleeps| ((*sleeps).into(), false))
    }

    fn alarm(&self) -> Option<Duration> {
        self.card.alarm()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        self.tell(step(StepKind::Tick, 0, 0), ports, |card, ports| card.tick(ports));
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        let (host, count) = place.map_or((0, 0), |place| (place.host, place.ports));
        let call = step(StepKind::LinkChanged, host.into(), count.into());
        let call = Record { failed: place.is_none().into(), ..call };
        self.tell(call, ports, |card, ports| card.link_changed(ports, place));
    }

    fn reset(&mut self, ports: &Ports<'_>) {
        self.tell(step(StepKind::Reset, 0, 0), ports, |card, ports| card.reset(ports));
    }

    fn counts(&self) -> &[u64] {
        self.card.counts()
    }

    fn packet_fields(&self) -> &'static [PacketField] {
        self.card.packet_fields()
    }

    fn regions(&self) -> Vec<Region> {
        self.card.regions()
    }

    fn is_enabled(&self) -> bool {
        self.card.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.card.counters()
    }
}
