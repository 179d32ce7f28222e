//! Remote reads that wait for their answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::packet::{DATA, Header};
use crate::windows::Remote;

/// Loads that may wait at the same time: as many as there can be processors.
pub(crate) const LOADS: usize = 256;

/// After a load has timed out, further loads from its host fail at once for this many times the
/// read time-out. A host that answers PROBEs but no loads is not given up.
const PAUSE: u32 = 20;

/// Limit of the bytes that the headers of an answer's packets take.
const HEADS: u64 = 64;

/// The origin of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A processor, through the window that begins at page `window`.
    Load { window: u32 },
    /// A DMA request of the endpoint.
    Request,
}

/// A read that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The number of the read in its packets, and of the load on the bus.
    pub(crate) number: u32,
    pub(crate) reader: Reader,
    pub(crate) remote: Remote,
    /// The first byte, and the number of bytes.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// The endpoint's tag, and its owner.
    pub(crate) tag: u32,
    pub(crate) owner: u32,
    /// The data that has arrived.
    pub(crate) data: Vec<u8>,
    deadline: Duration,
}

/// All reads that wait, by the number in their packets.
#[derive(Debug)]
pub(crate) struct Reads {
    /// Time that a read may take.
    timeout: Duration,
    waiting: BTreeMap<u32, Waiting>,
    /// The deadlines of the same reads, the earliest first.
    due: BTreeSet<(Duration, u32)>,
    next: u32,
    loads: usize,
    /// Number of requested bytes, by host.
    bytes: BTreeMap<u16, u64>,
    /// For each host, the number of the last load that timed out, and the time until which further
    /// loads fail at once.
    late: BTreeMap<u16, (u32, Duration)>,
    /// Loads that have got their values: number and value.
    loaded: VecDeque<(u64, u64)>,
}

impl Reads {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
            next: 0,
            loads: 0,
            bytes: BTreeMap::new(),
            late: BTreeMap::new(),
            loaded: VecDeque::new(),
        }
    }

    /// Forgets everything but the numbers that were used.
    pub(crate) fn reset(&mut self, timeout: Duration) {
        *self = Self { next: self.next, ..Self::new(timeout) };
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Gives a load its value.
    pub(crate) fn load_done(&mut self, read: &Waiting, value: u64) {
        self.loaded.push_back((read.number.into(), value));
    }

    /// Returns the number and the value of the next load that has got its value.
    pub(crate) fn next_loaded(&mut self) -> Option<(u64, u64)> {
        self.loaded.pop_front()
    }

    /// Forgets the reads that wait.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.due.clear();
        self.bytes.clear();
        self.late.clear();
        self.loads = 0;
    }

    /// Returns the number of bytes that are requested from a host.
    pub(crate) fn bytes(&self, host: u16) -> u64 {
        self.bytes.get(&host).copied().unwrap_or(0)
    }

    pub(crate) fn takes_load(&self, host: u16, now: Duration) -> bool {
        self.loads < LOADS && self.late.get(&host).is_none_or(|(_, until)| *until <= now)
    }

    /// Records that a host has answered a read, even a late one. Loads from it are then sent again.
    pub(crate) fn heard(&mut self, source: u16, number: u32) {
        let waits = self.waiting.get(&number).is_some_and(|waiting| waiting.remote.host == source);
        if waits || self.late.get(&source).is_some_and(|(late, _)| *late == number) {
            self.late.remove(&source);
        }
    }

    /// Begins a read at the time `now`. Returns its number.
    pub(crate) fn begin(
        &mut self,
        reader: Reader,
        remote: Remote,
        (offset, length): (u64, u64),
        (tag, owner): (u32, u32),
        now: Duration,
    ) -> u32 {
        let deadline = now + self.timeout;
        // The reads that wait are too few for a number to occur twice.
        self.next = self.next.wrapping_add(1);
        self.loads += usize::from(matches!(reader, Reader::Load { .. }));
        *self.bytes.entry(remote.host).or_default() += length + HEADS;
        let number = self.next;
        let waiting =
            Waiting { number, reader, remote, offset, length, tag, owner, data: Vec::new(), deadline };
        self.waiting.insert(number, waiting);
        self.due.insert((deadline, number));
        number
    }

    fn end(&mut self, number: u32) -> Option<Waiting> {
        let ended = self.waiting.remove(&number)?;
        self.due.remove(&(ended.deadline, number));
        self.loads -= usize::from(matches!(ended.reader, Reader::Load { .. }));
        if let Some(bytes) = self.bytes.get_mut(&ended.remote.host) {
            *bytes -= ended.length + HEADS;
        }
        Some(ended)
    }

    /// Handles a piece of an answer. Returns the read if it is complete, or `Ok(None)` if more must
    /// arrive. Fails if no read waits for the piece.
    pub(crate) fn answered(
        &mut self,
        source: u16,
        header: &Header,
        data: &[u8],
    ) -> Result<Option<Waiting>, ()> {
        let number = header.tag.get();
        let waiting =
            self.waiting.get_mut(&number).filter(|waiting| waiting.remote.host == source).ok_or(())?;
        let missing = waiting.length - waiting.data.len() as u64;
        let is_next = header.offset.get() == waiting.offset + waiting.data.len() as u64;
        debug_assert_eq!(header.kind, DATA);
        if !is_next || data.is_empty() || data.len() as u64 > missing {
            return Err(());
        }
        waiting.data.extend_from_slice(data);
        let is_whole = data.len() as u64 == missing;
        Ok(if is_whole { self.end(number) } else { None })
    }

    /// Ends a read that was refused.
    pub(crate) fn refused(&mut self, source: u16, number: u32) -> Option<Waiting> {
        self.waiting.get(&number).filter(|waiting| waiting.remote.host == source)?;
        self.end(number)
    }

    /// Ends the reads that are overdue.
    pub(crate) fn give_up_overdue(&mut self, now: Duration) -> Vec<Waiting> {
        let overdue: Vec<u32> = self.due.range(..=(now, u32::MAX)).map(|(_, number)| *number).collect();
        let overdue: Vec<_> = overdue.into_iter().filter_map(|number| self.end(number)).collect();
        for read in overdue.iter().filter(|read| matches!(read.reader, Reader::Load { .. })) {
            self.late.insert(read.remote.host, (read.number, now + PAUSE * self.timeout));
        }
        overdue
    }

    /// Ends the reads for which `gone` returns `true`.
    pub(crate) fn give_up(&mut self, gone: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let numbers: Vec<u32> =
            self.waiting.iter().filter(|(_, waiting)| gone(waiting)).map(|(number, _)| *number).collect();
        numbers.into_iter().filter_map(|number| self.end(number)).collect()
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.due.first().map(|(deadline, _)| *deadline)
    }
}
