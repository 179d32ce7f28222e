//! A card's recorder.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_abi::family::command::ULN_REG_COMMAND_GO;
use hamlyn_card::card::{Place, Reading, Store};
use hamlyn_card::ports::{Clock, VolatileSlice};
use hamlyn_fabric::one_way::Writer;
use hamlyn_trace::record::{Kind, Record, Wish};
use zerocopy::IntoBytes;

use crate::clock::SystemClock;

/// Bytes of each access that are recorded while the card carries out a command.
const COMMAND_BYTES: u32 = 512;
/// Number of window words whose last value is remembered.
const WORDS: usize = 64;

/// The handle of a card's recorder.
#[derive(Debug, Clone)]
pub(crate) struct Tap(Arc<Mutex<Recorder>>);

#[derive(Debug)]
struct Recorder {
    writer: Writer,
    /// Records that found no room since the last that did.
    lost: u64,
    /// The card carries out a command.
    in_command: bool,
    /// Something has happened since the counters were compared.
    news: bool,
    /// The counters, when they were compared last.
    counters: Vec<u64>,
    /// What the card loaded last, by a hash of the place, so that polling makes no records.
    words: [(u64, u32); WORDS],
}

/// Returns a record of now.
pub(crate) fn record(kind: Kind, a: u64, b: u64) -> Record {
    Record { time: now(), a, b, kind: kind as u8, ..Record::default() }
}

/// Returns the time of a record.
fn now() -> u64 {
    SystemClock.now().as_nanos() as u64
}

impl Tap {
    /// Records into a ring. `counters` are the card's, now.
    pub(crate) fn new(writer: Writer, counters: &[(&'static str, u64)]) -> Self {
        let counters = counters.iter().map(|(_, count)| *count).collect();
        let words = [(u64::MAX, 0); WORDS];
        let recorder = Recorder { writer, lost: 0, in_command: false, news: false, counters, words };
        Tap(Arc::new(Mutex::new(recorder)))
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the machine writes a register, and whether that begins a command.
    pub(crate) fn begin_write(&self, bar: u8, offset: u64, width: u8, value: u64) {
        let mut recorder = self.recorder();
        recorder.in_command = bar == 0 && offset == u64::from(ULN_REG_COMMAND_GO);
        recorder.put(Record { bar, width, ..record(Kind::RegisterWrite, offset, value) }, &[], 0);
    }

    /// Notes that the card has handled a write, a store or a packet.
    pub(crate) fn done(&self) {
        let mut recorder = self.recorder();
        recorder.in_command = false;
        recorder.put(record(Kind::Done, 0, 0), &[], 0);
    }

    /// Notes a read and its value, or that the card puts its answer off.
    pub(crate) fn read(&self, bar: u8, offset: u64, width: u8, reading: Reading) {
        let (failed, value) = match reading {
            Reading::Now(value) => (0, value),
            Reading::Later(number) => (1, number),
        };
        self.note(Record { bar, width, failed, ..record(Kind::RegisterRead, offset, value) });
    }

    /// Notes a store to ordinary memory that the card sees.
    pub(crate) fn store(&self, store: &Store) {
        let mut bytes = store.bytes().to_vec();
        let length = bytes.len() as u64;
        let bytes = VolatileSlice::from(&mut bytes[..]);
        self.recorder().put(record(Kind::Store, store.address, length), &[bytes], u32::MAX);
    }

    /// Notes a packet that arrives.
    pub(crate) fn arrived(&self, source: u16, packet: &[VolatileSlice<'_>]) {
        let length: usize = packet.iter().map(VolatileSlice::len).sum();
        self.packet(record(Kind::Arrive, source.into(), length as u64), packet);
    }

    /// Notes that the link is up or down.
    pub(crate) fn link(&self, place: Option<Place>) {
        let failed = place.is_none().into();
        let (host, ports) = place.map_or((0, 0), |place| (place.host, place.ports));
        self.note(Record { failed, ..record(Kind::Link, host.into(), ports.into()) });
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

    /// Records text.
    pub(crate) fn text(&self, record: Record, text: &str) {
        let mut text = text.as_bytes().to_vec();
        self.recorder().put(record, &[VolatileSlice::from(&mut text[..])], u32::MAX);
    }

    /// Records a word that the card loaded from a window, if it differs from the last one.
    pub(crate) fn load(&self, bar: u8, offset: u64, value: u32) {
        let mut recorder = self.recorder();
        let place = u64::from(bar) << 56 | offset;
        let entry = &mut recorder.words[(place / 4 ^ place >> 12) as usize % WORDS];
        if *entry != (place, value) {
            *entry = (place, value);
            recorder.put(Record { bar, ..record(Kind::WindowLoad, offset, value.into()) }, &[], 0);
        }
    }

    /// Records which counters have changed, after a call of the card.
    pub(crate) fn count(&self, counters: impl FnOnce() -> Vec<(&'static str, u64)>) {
        let mut recorder = self.recorder();
        if !std::mem::take(&mut recorder.news) || !recorder.wish().has(Kind::Counter) {
            return;
        }
        for (index, (_, count)) in counters().into_iter().enumerate() {
            let Some(known) = recorder.counters.get_mut(index) else { continue };
            let more = count.wrapping_sub(std::mem::replace(known, count));
            if more != 0 {
                recorder.put(record(Kind::Counter, index as u64, more), &[], 0);
            }
        }
        recorder.news = false;
    }
}

impl Recorder {
    fn wish(&self) -> Wish {
        Wish::of_word(self.writer.wish())
    }

    /// Appends a record with at most as many bytes as the reader wants, or `most` if that is more.
    fn put(&mut self, record: Record, bytes: &[VolatileSlice<'_>], most: u32) {
        self.news = true;
        let wish = self.wish();
        if !Kind::of(record.kind).is_some_and(|kind| wish.has(kind)) {
            return;
        }
        if self.lost > 0 {
            let gap = Record { a: self.lost, kind: Kind::Lost as u8, ..record };
            if !self.append(gap, &[], 0) {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        if !self.append(record, bytes, wish.bytes.max(most) as usize) {
            self.lost += 1;
        }
    }

    fn append(&mut self, mut record: Record, bytes: &[VolatileSlice<'_>], most: usize) -> bool {
        let head = VolatileSlice::from(record.as_mut_bytes());
        let most = most.min(self.writer.longest().saturating_sub(head.len()));
        // The reader's own writes can only break its own ring.
        if most == 0 || bytes.is_empty() {
            return self.writer.append(&[head]).unwrap_or(false);
        }
        let mut pieces = Vec::with_capacity(1 + bytes.len());
        pieces.push(head);
        let mut left = most;
        for piece in bytes {
            let length = piece.len().min(left);
            pieces.extend(piece.subslice(0, length).ok());
            left -= length;
        }
        self.writer.append(&pieces).unwrap_or(false)
    }
}
