//! Calls of a recording as events with names, as a trace shows them.

use std::collections::HashMap;

use hamlyn_card::packet::PacketField;
use hamlyn_trace::decode::Decoder;
use hamlyn_trace::event::Event;
use hamlyn_trace::hello::CardName;
use hamlyn_trace::record::{Kind, Record};

use crate::file::Call;
use crate::step::{Step, StepKind};

/// Names the events of a recording.
#[derive(Debug)]
pub struct Namer {
    decoder: Decoder,
    /// What the card loaded last, so that polling makes no events.
    loads: HashMap<(u8, u64), u64>,
    counts: Vec<u64>,
}

impl Namer {
    /// Creates one for this card, whose packets have this header.
    #[must_use]
    pub fn new(card: &CardName, packet: &'static [PacketField]) -> Self {
        Self { decoder: Decoder::new(0, card, packet), loads: HashMap::new(), counts: Vec::new() }
    }

    /// Returns the events of a call. `counts` are the card's counters after it, if they are known.
    pub fn events(&mut self, call: &Call, counts: &[u64]) -> Vec<Event> {
        let time = call.step.record.time;
        let mut records: Vec<(Record, Vec<u8>)> = Vec::new();
        let is_read = call.step.kind == StepKind::RegisterRead;
        if let Some(kind) = event_of(call.step.kind).filter(|_| !is_read) {
            records.push(named(&call.step, kind));
        }
        for step in &call.steps {
            let Some(kind) = event_of(step.kind) else { continue };
            let Record { a, b, bar, failed, .. } = step.record;
            let is_poll = kind == Kind::WindowLoad && self.loads.insert((bar, a), b) == Some(b);
            let is_retry = kind == Kind::Send && failed != 0;
            if !is_poll && !is_retry {
                records.push(named(step, kind));
            }
        }
        if let Some(returned) = call.returned.filter(|_| is_read) {
            let (mut record, bytes) = named(&call.step, Kind::RegisterRead);
            (record.b, record.failed) = (returned.value, returned.is_late.into());
            records.push((record, bytes));
        }
        self.counts.resize(counts.len(), 0);
        for (index, (known, count)) in self.counts.iter_mut().zip(counts).enumerate() {
            let more = count.wrapping_sub(std::mem::replace(known, *count));
            if more != 0 && call.step.kind != StepKind::Reset {
                let record =
                    Record { a: index as u64, b: more, kind: Kind::Counter as u8, ..Record::default() };
                records.push((record, Vec::new()));
            }
        }
        if matches!(call.step.kind, StepKind::RegisterWrite | StepKind::StoreSeen | StepKind::PacketArrived) {
            records.push((Record { kind: Kind::Done as u8, ..Record::default() }, Vec::new()));
        }
        let decoded = records
            .into_iter()
            .filter_map(|(record, bytes)| self.decoder.decode(&Record { time, ..record }, bytes));
        decoded.collect()
    }
}

fn named(step: &Step, kind: Kind) -> (Record, Vec<u8>) {
    let mut record = Record { kind: kind as u8, ..step.record };
    let mut bytes = step.bytes.clone();
    match step.kind {
        StepKind::StoreSeen | StepKind::PacketArrived => record.b = bytes.len() as u64,
        // The operation, which has no place in a trace.
        StepKind::DmaFetch => bytes.clear(),
        StepKind::Reset => bytes = b"of the card".to_vec(),
        _ => {}
    }
    (record, bytes)
}

/// Returns a trace's kind of a step, if traces have it.
fn event_of(kind: StepKind) -> Option<Kind> {
    Some(match kind {
        StepKind::RegisterRead => Kind::RegisterRead,
        StepKind::RegisterWrite => Kind::RegisterWrite,
        StepKind::StoreSeen => Kind::Store,
        StepKind::PacketArrived => Kind::Arrive,
        StepKind::LinkChanged => Kind::Link,
        StepKind::Reset => Kind::Reset,
        StepKind::LateReading => Kind::LateRead,
        StepKind::DmaRead => Kind::DmaRead,
        StepKind::DmaLend => Kind::DmaLendRead,
        StepKind::DmaFetch => Kind::DmaFetch,
        StepKind::WindowLoad => Kind::WindowLoad,
        StepKind::WindowCopy => Kind::WindowCopy,
        StepKind::Send => Kind::Send,
        StepKind::DmaWrite => Kind::DmaWrite,
        StepKind::DmaPublish => Kind::DmaPublish,
        StepKind::WindowStore => Kind::WindowStore,
        StepKind::WindowClear => Kind::WindowClear,
        StepKind::Raise => Kind::Interrupt,
        _ => return None,
    })
}
