//! Ports that answer as a recording says, and keep what the card does.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bumpalo::Bump;
use hamlyn_card::ports::{Clock, Dma, DmaFault, Interrupt, Link, Operation, Ports, VolatileSlice, Windows};
use hamlyn_trace::record::Record;

use crate::image::{Image, Space};
use crate::operation;
use crate::step::{MOST_LENT, Step, StepKind, step};

/// The ports of one call.
pub(crate) struct ReplayPorts<'a> {
    /// The recorded steps, without those that were used.
    recorded: RefCell<Vec<Option<&'a Step>>>,
    /// All steps before this one were used.
    first: Cell<usize>,
    image: &'a RefCell<Image>,
    now: &'a Cell<u64>,
    /// What is lent, until the call ends.
    lent: Bump,
    outputs: RefCell<Vec<Step>>,
    /// What the card asked for, and the recording does not have.
    unforeseen: RefCell<Vec<Record>>,
}

impl<'a> ReplayPorts<'a> {
    /// Returns ports for a call with these steps.
    pub(crate) fn new(steps: &'a [Step], image: &'a RefCell<Image>, now: &'a Cell<u64>) -> Self {
        ReplayPorts {
            recorded: RefCell::new(steps.iter().map(Some).collect()),
            first: Cell::new(0),
            image,
            now,
            lent: Bump::new(),
            outputs: RefCell::default(),
            unforeseen: RefCell::default(),
        }
    }

    pub(crate) fn ports(&self) -> Ports<'_> {
        Ports { dma: self, windows: self, interrupt: self, clock: self }
    }

    /// Returns what the card did, and what it asked for that the recording does not have. The
    /// image then has all that the recorded card saw.
    pub(crate) fn finish(self) -> (Vec<Step>, Vec<Record>) {
        let mut image = self.image.borrow_mut();
        for step in self.recorded.into_inner().into_iter().flatten() {
            remember(&mut image, step);
        }
        (self.outputs.into_inner(), self.unforeseen.into_inner())
    }

    /// Takes the next recorded step that is such a request.
    fn take(&self, wanted: Record) -> Option<&'a Step> {
        let key = |record: &Record| match StepKind::of(record.kind) {
            Some(StepKind::Clock | StepKind::Resumptions) => (record.kind, 0, 0, 0),
            Some(
                StepKind::DmaRead
                | StepKind::DmaLend
                | StepKind::DmaCheck
                | StepKind::DmaWrite
                | StepKind::WindowCopy,
            ) => (record.kind, record.bar, record.a, record.b),
            _ => (record.kind, record.bar, record.a, 0),
        };
        let mut recorded = self.recorded.borrow_mut();
        let mut first = self.first.get();
        while recorded.get(first).is_some_and(Option::is_none) {
            first += 1;
        }
        self.first.set(first);
        let wanted_key = key(&wanted);
        let is_it = |step: &Option<&Step>| step.is_some_and(|step| key(&step.record) == wanted_key);
        let place = recorded[first..].iter().position(is_it);
        let found = place.and_then(|place| recorded[first + place].take());
        match found {
            Some(step) => remember(&mut self.image.borrow_mut(), step),
            None => self.unforeseen.borrow_mut().push(wanted),
        }
        found
    }

    /// Answers a request for bytes.
    fn bytes(&self, wanted: Record, space: Space) -> Result<Vec<u8>, DmaFault> {
        let (address, length) = (wanted.a, wanted.b);
        match self.take(wanted) {
            Some(step) if step.record.failed != 0 => Err(DmaFault { address, length }),
            Some(step) if step.bytes.len() as u64 == length => Ok(step.bytes.clone()),
            _ => Ok(self.image.borrow().get(space, address, length as usize)),
        }
    }

    /// Keeps an output, and remembers what it changes.
    fn put(&self, mut record: Record, bytes: Vec<u8>) -> Result<(), DmaFault> {
        let kind = StepKind::of(record.kind).filter(|kind| kind.is_output());
        if matches!(kind, Some(StepKind::DmaWrite | StepKind::DmaPublish)) {
            let found = self.take(record);
            record.failed = found.map_or(0, |step| step.record.failed);
        }
        record.length = bytes.len() as u32;
        let (address, length, has_failed) = (record.a, bytes.len() as u64, record.failed != 0);
        if let Some(kind) = kind {
            let step = Step { kind, record, bytes };
            remember(&mut self.image.borrow_mut(), &step);
            self.outputs.borrow_mut().push(step);
        }
        if has_failed { Err(DmaFault { address, length }) } else { Ok(()) }
    }
}

/// Puts into the image what a step shows.
fn remember(image: &mut Image, step: &Step) {
    let Record { a, b, bar, failed, .. } = step.record;
    if failed != 0 {
        return;
    }
    match step.kind {
        StepKind::DmaRead | StepKind::DmaLend | StepKind::DmaWrite => {
            image.put(Space::Memory, a, &step.bytes);
        }
        StepKind::DmaPublish => image.put(Space::Memory, a, &(b as u32).to_le_bytes()),
        StepKind::WindowLoad | StepKind::WindowStore => {
            image.put(Space::Window(bar), a, &(b as u32).to_le_bytes());
        }
        StepKind::WindowCopy => image.put(Space::Window(bar), a, &step.bytes),
        StepKind::WindowClear => image.clear(Space::Window(bar), a, b),
        _ => {}
    }
}

/// Copies bytes out of slices.
pub(crate) fn collect(pieces: &[VolatileSlice<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; pieces.iter().map(VolatileSlice::len).sum()];
    let mut place = 0;
    for piece in pieces {
        piece.copy_to(&mut bytes[place..]);
        place += piece.len();
    }
    bytes
}

impl Dma for ReplayPorts<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        let bytes = self.bytes(step(StepKind::DmaRead, address, into.len() as u64), Space::Memory)?;
        into.copy_from(&bytes);
        Ok(())
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        if length > MOST_LENT {
            return Err(DmaFault { address, length: length as u64 });
        }
        let bytes = self.bytes(step(StepKind::DmaLend, address, length as u64), Space::Memory)?;
        Ok(VolatileSlice::from(self.lent.alloc_slice_copy(&bytes)))
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.put(step(StepKind::DmaWrite, address, from.len() as u64), collect(&[from]))
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        self.put(step(StepKind::DmaPublish, address, value.into()), Vec::new())
    }

    fn lend_to_write(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        let length = length as u64;
        match self.take(step(StepKind::DmaCheck, address, length)) {
            Some(step) if step.record.failed != 0 => Err(DmaFault { address, length }),
            _ => Ok(None),
        }
    }

    fn lend_to_change(&self, address: u64, length: usize) -> Result<Option<VolatileSlice<'_>>, DmaFault> {
        self.lend_to_write(address, length)
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        let mut record = step(StepKind::DmaFetch, address, 0);
        let found = self.take(record);
        let has_failed = found.is_some_and(|step| step.record.failed != 0);
        let old = found.map_or_else(
            || {
                let known = self.image.borrow().get(Space::Memory, address, 8);
                u64::from_le_bytes(known.try_into().unwrap_or_default())
            },
            |step| step.record.b,
        );
        let word = std::sync::atomic::AtomicU64::new(old);
        operation.apply(&word);
        if !has_failed {
            self.image.borrow_mut().put(Space::Memory, address, &word.into_inner().to_le_bytes());
        }
        (record.b, record.failed) = (old, has_failed.into());
        let bytes = operation::to_bytes(operation).to_vec();
        record.length = bytes.len() as u32;
        self.outputs.borrow_mut().push(Step { kind: StepKind::DmaFetch, record, bytes });
        if has_failed { Err(DmaFault { address, length: 8 }) } else { Ok(old) }
    }
}

impl Windows for ReplayPorts<'_> {
    fn load_from(&self, bar: u8, offset: u64) -> u32 {
        let wanted = Record { bar, ..step(StepKind::WindowLoad, offset, 0) };
        if let Some(found) = self.take(wanted) {
            return found.record.b as u32;
        }
        let known = self.image.borrow().get(Space::Window(bar), offset, 4);
        u32::from_le_bytes(known.try_into().unwrap_or_default())
    }

    fn store_to(&self, bar: u8, offset: u64, value: u32) {
        let record = Record { bar, ..step(StepKind::WindowStore, offset, value.into()) };
        // Only accesses to host memory fail.
        let _ = self.put(record, Vec::new());
    }

    fn copy_out_of(&self, bar: u8, offset: u64, into: &mut [u8]) {
        let wanted = Record { bar, ..step(StepKind::WindowCopy, offset, into.len() as u64) };
        if let Ok(bytes) = self.bytes(wanted, Space::Window(bar)) {
            into.copy_from_slice(&bytes);
        }
    }

    fn clear_in(&self, bar: u8, offset: u64, length: u64) {
        let _ = self.put(Record { bar, ..step(StepKind::WindowClear, offset, length) }, Vec::new());
    }
}

impl Interrupt for ReplayPorts<'_> {
    fn raise(&self, vector: u16) {
        let _ = self.put(step(StepKind::Raise, vector.into(), 0), Vec::new());
    }
}

impl Clock for ReplayPorts<'_> {
    fn now(&self) -> Duration {
        if let Some(found) = self.take(step(StepKind::Clock, 0, 0)) {
            self.now.set(found.record.a);
        }
        Duration::from_nanos(self.now.get())
    }
}

/// The link of one call.
pub(crate) struct ReplayLink<'p, 'a>(pub(crate) &'p ReplayPorts<'a>);

impl Link for ReplayLink<'_, '_> {
    fn send(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        let bytes = collect(packet);
        let mut record = step(StepKind::Send, destination.into(), bytes.len() as u64);
        record.failed = self.0.take(record).map_or(0, |step| step.record.failed);
        // A packet that found no room comes again.
        let bytes = if record.failed == 0 { bytes } else { Vec::new() };
        record.length = bytes.len() as u32;
        self.0.outputs.borrow_mut().push(Step { kind: StepKind::Send, record, bytes });
        record.failed == 0
    }

    fn is_stopped(&self, destination: u16) -> bool {
        self.0.take(step(StepKind::IsStopped, destination.into(), 0)).is_some_and(|step| step.record.b != 0)
    }

    fn set_groups(&mut self, groups: u64) {
        let _ = self.0.put(step(StepKind::SetGroups, groups, 0), Vec::new());
    }

    fn resumptions(&self) -> u64 {
        self.0.take(step(StepKind::Resumptions, 0, 0)).map_or(0, |step| step.record.a)
    }
}
