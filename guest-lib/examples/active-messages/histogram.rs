//! The application's state and its handlers.

use crate::endpoint::{Handlers, Reply};

/// Indices of the request handlers: counts bins, records that a process is done, returns the bins,
/// stores the whole histogram.
pub(crate) const COUNT: u16 = 0;
pub(crate) const DONE: u16 = 1;
pub(crate) const FETCH: u16 = 2;
pub(crate) const RESULT: u16 = 3;
/// Indices of the reply handlers: does nothing, stores one process' bins.
const NOTHING: u16 = 0;
const PART: u16 = 1;

/// The handlers, ordered by these indices.
pub(crate) const HANDLERS: Handlers<Histogram> =
    Handlers { requests: &[count, done, fetch, result], replies: &[nothing, part] };

/// One process' part of the histogram.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// This process' bins.
    bins: Vec<u64>,
    /// Number of processes that have sent all their samples. Only process 0 is told.
    pub(crate) done: usize,
    /// The bins of every process, at process 0.
    parts: Vec<Vec<u64>>,
    /// All bins, once the job is complete.
    pub(crate) result: Option<Vec<u64>>,
}

impl Histogram {
    pub(crate) fn new(bins: u32, processes: usize) -> Self {
        Self { bins: vec![0; bins as usize], done: 0, parts: vec![Vec::new(); processes], result: None }
    }

    /// Returns the bins of all processes as bytes.
    pub(crate) fn whole(&self) -> Vec<u8> {
        self.parts.iter().flatten().flat_map(|count| count.to_le_bytes()).collect()
    }
}

/// Arguments: bin numbers, 4 bytes each.
fn count(histogram: &mut Histogram, _from: usize, arguments: &[u8]) -> Reply {
    for bin in arguments.chunks_exact(4) {
        let bin = u32::from_le_bytes([bin[0], bin[1], bin[2], bin[3]]) as usize;
        // An invalid bin number from a peer does not stop this process.
        if let Some(count) = histogram.bins.get_mut(bin) {
            *count += 1;
        }
    }
    acknowledge()
}

fn done(histogram: &mut Histogram, _from: usize, _arguments: &[u8]) -> Reply {
    histogram.done += 1;
    acknowledge()
}

fn fetch(histogram: &mut Histogram, _from: usize, _arguments: &[u8]) -> Reply {
    let arguments = histogram.bins.iter().flat_map(|count| count.to_le_bytes()).collect();
    Reply { handler: PART, arguments }
}

/// Arguments: all bins, 8 bytes each.
fn result(histogram: &mut Histogram, _from: usize, arguments: &[u8]) -> Reply {
    histogram.result = Some(counts(arguments));
    acknowledge()
}

fn acknowledge() -> Reply {
    Reply { handler: NOTHING, arguments: Vec::new() }
}

fn nothing(_: &mut Histogram, _from: usize, _arguments: &[u8]) {}

/// Arguments: the replying process' bins, 8 bytes each.
fn part(histogram: &mut Histogram, from: usize, arguments: &[u8]) {
    histogram.parts[from] = counts(arguments);
}

fn counts(bytes: &[u8]) -> Vec<u64> {
    let count = |bytes: &[u8]| bytes.iter().rev().fold(0, |count, byte| count << 8 | u64::from(*byte));
    bytes.chunks_exact(8).map(count).collect()
}
