//! A card's recorder.

use std::cell::{RefCell, RefMut};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hamlyn_abi::family::command::ULN_REG_COMMAND_GO;
use hamlyn_card::card::{Place, Reading, Store};
use hamlyn_card::ports::{Clock, VolatileSlice};
use hamlyn_fabric::one_way::Writer;
use hamlyn_replay::record::Sink;
use hamlyn_replay::step::{StepKind, step};
use hamlyn_trace::record::{GEOMETRY, Kind, Record, Wish};
use zerocopy::IntoBytes;

use crate::clock::SystemClock;

/// Bytes of each access that are recorded while the card carries out a command.
const COMMAND_BYTES: u32 = 512;
/// Number of window words whose last value is remembered.
const WORDS: usize = 64;

/// Number of counters that are compared at once: few change in one call.
const GROUP: usize = 8;

/// Bytes of records after which they are written to the ring, though the card's call goes on.
const FULL: usize = 64 << 10;
/// The longest capture of a packet, 128 KiB, fits behind them.
const _: () = assert!(FULL + (128 << 10) + 4096 < GEOMETRY.max_packet);

/// How long a recorded card waits for room in the ring. A trace is never waited for.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_micros(200);

/// A card's recorder. What happens in one call of the card is written to the ring at once.
#[derive(Debug)]
pub(crate) struct Tap(RefCell<Recorder>);

/// How far a recording has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recording {
    /// It begins when the machine resets the card, or its driver starts.
    Waits,
    Runs,
    /// The reader did not keep up, and has to learn that.
    Breaks,
    Ended,
}

#[derive(Debug)]
struct Recorder {
    writer: Writer,
    recording: Recording,
    /// What the reader wants, as it was before the first of the pending records.
    wish: Wish,
    /// Records that are not in the ring yet, and their number.
    pending: Vec<u64>,
    count: u64,
    /// Time of the last record.
    last: u64,
    /// Records that found no room since the last that did.
    lost: u64,
    /// The card handles a write, a store or a packet, and then reports that it has.
    busy: bool,
    /// The card carries out a command.
    in_command: bool,
    /// Something has happened since the counters were compared.
    news: bool,
    /// The counters, when they were compared last.
    counters: Vec<u64>,
    /// What the card loaded last, by a hash of the place, so that polling makes no records.
    words: [(u64, u32); WORDS],
}

/// Returns a record whose time is that of [`Recorder::put`].
pub(crate) fn record(kind: Kind, a: u64, b: u64) -> Record {
    Record { a, b, kind: kind as u8, ..Record::default() }
}

/// Whether two groups of counters differ. A comparison of slices would be a call of a function.
#[inline(always)]
fn differ(one: &[u64], other: &[u64]) -> bool {
    let differs = |one: &[u64], other: &[u64]| {
        one.iter().zip(other).fold(0, |differing, (one, other)| differing | (one ^ other)) != 0
    };
    match (one.first_chunk::<GROUP>(), other.first_chunk::<GROUP>()) {
        (Some(one), Some(other)) => differs(one, other),
        _ => differs(one, other),
    }
}

/// Returns the time of a record.
fn now() -> u64 {
    SystemClock.now().as_nanos() as u64
}

impl Tap {
    /// Records into a ring. `counters` are the card's, now.
    pub(crate) fn new(writer: Writer, counters: &[u64]) -> Self {
        Tap(RefCell::new(Recorder {
            writer,
            recording: Recording::Waits,
            wish: Wish::NONE,
            pending: Vec::new(),
            count: 0,
            last: 0,
            lost: 0,
            busy: false,
            in_command: false,
            news: false,
            counters: counters.to_vec(),
            words: [(u64::MAX, 0); WORDS],
        }))
    }

    fn recorder(&self) -> RefMut<'_, Recorder> {
        self.0.borrow_mut()
    }

    /// Notes that the machine writes a register, and whether that begins a command.
    pub(crate) fn begin_write(&self, bar: u8, offset: u64, width: u8, value: u64) {
        let mut recorder = self.recorder();
        recorder.busy = true;
        recorder.in_command = bar == 0 && offset == u64::from(ULN_REG_COMMAND_GO);
        recorder.put(Record { bar, width, ..record(Kind::RegisterWrite, offset, value) }, &[], 0);
    }

    /// Notes that the card has handled a write, a store or a packet.
    pub(crate) fn done(&self) {
        let mut recorder = self.recorder();
        (recorder.in_command, recorder.busy) = (false, false);
        recorder.put(record(Kind::Done, 0, 0), &[], 0);
        recorder.flush();
    }

    /// Notes a read and its value, or that the card puts its answer off.
    pub(crate) fn read(&self, bar: u8, offset: u64, width: u8, reading: Reading) {
        let (failed, value) = match reading {
            Reading::Now(value) => (0, value),
            Reading::Later(number) => (1, number),
        };
        self.note(Record { bar, width, failed, ..record(Kind::RegisterRead, offset, value) });
        self.recorder().flush();
    }

    /// Notes a store to ordinary memory that the card sees.
    pub(crate) fn store(&self, store: &Store) {
        let mut bytes = store.bytes().to_vec();
        let length = bytes.len() as u64;
        let bytes = VolatileSlice::from(&mut bytes[..]);
        let mut recorder = self.recorder();
        recorder.busy = true;
        recorder.put(record(Kind::Store, store.address, length), &[bytes], u32::MAX);
    }

    /// Notes a packet that arrives.
    pub(crate) fn arrived(&self, source: u16, packet: &[VolatileSlice<'_>]) {
        let length: usize = packet.iter().map(VolatileSlice::len).sum();
        self.recorder().busy = true;
        self.packet(record(Kind::Arrive, source.into(), length as u64), packet);
    }

    /// Notes that the link is up or down.
    pub(crate) fn link(&self, place: Option<Place>) {
        let failed = place.is_none().into();
        let (host, ports) = place.map_or((0, 0), |place| (place.host, place.ports));
        self.note(Record { failed, ..record(Kind::Link, host.into(), ports.into()) });
    }

    /// Returns the time of an event that is recorded later, or 0 for the time of the record before
    /// it.
    pub(crate) fn time(&self) -> u64 {
        let mut recorder = self.recorder();
        recorder.look();
        if recorder.reads_clock() { now() } else { 0 }
    }

    /// Records an event without bytes.
    pub(crate) fn note(&self, record: Record) {
        self.recorder().put(record, &[], 0);
    }

    /// Records an access to memory, with as many of its bytes as the reader wants.
    pub(crate) fn access(&self, record: Record, bytes: &[VolatileSlice<'_>]) {
        let mut recorder = self.recorder();
        let most = if recorder.in_command { COMMAND_BYTES } else { 0 };
        recorder.put(record, bytes, most);
    }

    /// Records a packet: its first bytes, or as many as the reader wants.
    pub(crate) fn packet(&self, record: Record, bytes: &[VolatileSlice<'_>]) {
        self.recorder().put(record, bytes, Wish::HEADS);
    }

    /// Whether calls of the card are recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.recorder().recording == Recording::Runs
    }

    /// Whether a reader waits for a recording.
    pub(crate) fn begins_recording(&self) -> bool {
        let recorder = self.recorder();
        Wish::of_word(recorder.writer.wish()).recording && recorder.recording == Recording::Waits
    }

    /// Begins a recording. The next call is the card's first.
    pub(crate) fn begin_recording(&self) {
        self.recorder().recording = Recording::Runs;
    }

    /// Records text.
    pub(crate) fn text(&self, record: Record, text: &str) {
        let mut text = text.as_bytes().to_vec();
        self.recorder().put(record, &[VolatileSlice::from(&mut text[..])], u32::MAX);
    }

    /// Records a word that the card loaded from a window, if it differs from the last one.
    pub(crate) fn load(&self, bar: u8, offset: u64, value: u32) {
        let mut recorder = self.recorder();
        let place = u64::from(bar) << 56 | offset;
        let entry = &mut recorder.words[((place / 4) ^ (place >> 12)) as usize % WORDS];
        if *entry != (place, value) {
            *entry = (place, value);
            recorder.put(Record { bar, ..record(Kind::WindowLoad, offset, value.into()) }, &[], 0);
        }
    }

    /// Records which counters have changed, after a call of the card, and writes its records to the
    /// ring.
    pub(crate) fn end_call(&self, counters: &[u64]) {
        let mut recorder = self.recorder();
        if std::mem::take(&mut recorder.news) && recorder.wish.has(Kind::Counter) {
            recorder.compare(counters);
            recorder.news = false;
        }
        if !recorder.busy {
            recorder.flush();
        }
    }
}

impl Sink for Tap {
    fn call(&self, call: Record, bytes: &[VolatileSlice<'_>]) {
        self.step(Record { time: now(), ..call }, bytes);
    }

    fn step(&self, step: Record, bytes: &[VolatileSlice<'_>]) {
        let mut recorder = self.recorder();
        if recorder.recording == Recording::Runs {
            recorder.put_with(step, bytes, usize::MAX);
            if recorder.pending.len() > FULL / size_of::<u64>() {
                recorder.flush();
            }
        }
    }

    fn end(&self) {
        self.recorder().flush();
    }
}

impl Recorder {
    /// Reads what the reader wants, before the first record that is written with others.
    #[inline(always)]
    fn look(&mut self) {
        if self.pending.is_empty() {
            self.wish = Wish::of_word(self.writer.wish());
        }
    }

    /// Whether the next record gets its own time.
    #[inline(always)]
    fn reads_clock(&self) -> bool {
        self.pending.is_empty() || self.wish.exact
    }

    fn compare(&mut self, counters: &[u64]) {
        for (number, counts) in counters.chunks(GROUP).enumerate() {
            let start = number * GROUP;
            let Some(known) = self.counters.get(start..start + counts.len()) else { return };
            if !differ(known, counts) {
                continue;
            }
            for (index, count) in (start..).zip(counts) {
                let more = count.wrapping_sub(self.counters[index]);
                if more != 0 {
                    self.counters[index] = *count;
                    self.put(record(Kind::Counter, index as u64, more), &[], 0);
                }
            }
        }
    }

    /// Adds a record with at most as many bytes as the reader wants, or `most` if that is more.
    ///
    /// This is inlined so that a record is put together in registers: one in memory, written field
    /// by field and then read whole, waits for those writes.
    #[inline(always)]
    fn put(&mut self, mut record: Record, bytes: &[VolatileSlice<'_>], most: u32) {
        self.news = true;
        self.look();
        if !self.wish.has_number(record.kind) {
            return;
        }
        if record.time == 0 && self.reads_clock() {
            record.time = now();
        }
        // A packet's time is that before it was sent, and the receiver has it meanwhile.
        self.last = self.last.max(record.time);
        if record.time == 0 {
            record.time = self.last;
        }
        match self.wish.bytes.max(most) {
            most if most > 0 && !bytes.is_empty() => self.put_with(record, bytes, most as usize),
            _ => self.pending.extend_from_slice(&record.words()),
        }
        self.count += 1;
        if self.pending.len() > FULL / size_of::<u64>() {
            self.flush();
        }
    }

    /// Adds a record with at most this number of bytes.
    fn put_with(&mut self, record: Record, bytes: &[VolatileSlice<'_>], most: usize) {
        let wanted = bytes.iter().map(VolatileSlice::len).sum::<usize>().min(most);
        self.pending.extend_from_slice(&Record { length: wanted as u32, ..record }.words());
        let start = self.pending.len();
        self.pending.resize(start + wanted.div_ceil(size_of::<u64>()), 0);
        let mut rest = &mut self.pending[start..].as_mut_bytes()[..wanted];
        for piece in bytes {
            let (now, behind) = rest.split_at_mut(piece.len().min(rest.len()));
            piece.copy_to(now);
            rest = behind;
        }
    }

    /// Writes the steps of a recording to the ring, and waits for room: a recording without one of
    /// them would be of no use.
    fn flush_recording(&mut self) {
        let begun = Instant::now();
        let mut steps = std::mem::take(&mut self.pending);
        while !steps.is_empty() {
            match self.writer.append(&[VolatileSlice::from(steps.as_mut_bytes())]) {
                Ok(true) => break,
                Ok(false) if begun.elapsed() < PATIENCE => sleep(LOOK),
                _ => {
                    self.recording = Recording::Breaks;
                    break;
                }
            }
        }
        steps.clear();
        self.pending = steps;
    }

    /// Tells the reader that the recording ends here.
    fn end_recording(&mut self) {
        let mut end = step(StepKind::Broken, 0, 0);
        let written = self.writer.append(&[VolatileSlice::from(end.as_mut_bytes())]);
        if written.unwrap_or(true) {
            self.recording = Recording::Ended;
        }
    }

    /// Writes the records to the ring.
    fn flush(&mut self) {
        match self.recording {
            Recording::Runs => return self.flush_recording(),
            Recording::Breaks => return self.end_recording(),
            Recording::Waits | Recording::Ended => {}
        }
        if self.pending.is_empty() {
            return;
        }
        let mut gap = Record { a: self.lost, time: self.last, kind: Kind::Lost as u8, ..Record::default() };
        let gap = VolatileSlice::from(gap.as_mut_bytes());
        let pending = VolatileSlice::from(self.pending.as_mut_bytes());
        let pieces = [gap, pending];
        // The reader's own writes can only break its own ring.
        let written = self.writer.append(if self.lost > 0 { &pieces } else { &pieces[1..] });
        self.lost = if written.unwrap_or(false) { 0 } else { self.lost + self.count };
        self.pending.clear();
        self.count = 0;
    }
}
