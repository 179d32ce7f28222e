//! A transfer in laps. A lap has as many messages as there are places, each with different bytes,
//! and ends with a check of all of them.
//!
//! Only the transfer is timed: from a lap's first message until the receiver reports its last byte.
//! Writing and checking the bytes are not timed.

use std::ops::Range;

use hamlyn_bench_guest::pattern::Pattern;

use crate::engine::result::{Meter, Outcome};

/// The amount of data to transfer, and the layout of the messages.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Laps {
    /// Bytes of each message
    #[arg(long, default_value_t = 65536)]
    pub(crate) size: usize,
    /// Messages
    #[arg(long, default_value_t = 1000)]
    pub(crate) count: u64,
    /// Messages before them, which are not measured
    #[arg(long, default_value_t = 64)]
    pub(crate) warmup: u64,
    /// Places at each end, one per message: a lap fills all places, then all their bytes are
    /// checked
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) places: u64,
}

/// The messages between two checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lap {
    pub(crate) messages: Range<u64>,
    pub(crate) measured: bool,
}

/// Bytes that are written or checked in one go.
const CHUNK: usize = 32 << 10;

impl Laps {
    /// Returns the bytes of all places.
    pub(crate) fn bytes(self) -> usize {
        self.size * self.places as usize
    }

    /// Returns the number of messages, including the warm-up.
    pub(crate) fn all(self) -> u64 {
        self.warmup + self.count
    }

    /// Returns all laps, those of the warm-up first.
    pub(crate) fn laps(self) -> impl Iterator<Item = Lap> {
        [(0..self.warmup, false), (self.warmup..self.all(), true)].into_iter().flat_map(
            move |(messages, measured)| {
                let starts = messages.clone().step_by(self.places as usize);
                starts.map(move |start| Lap {
                    messages: start..messages.end.min(start + self.places),
                    measured,
                })
            },
        )
    }

    /// Returns the offset of a message at either end.
    pub(crate) fn place(self, message: u64) -> usize {
        (message % self.places) as usize * self.size
    }

    /// Returns a lap's pieces: message, offset in the message, number of bytes.
    fn chunks(self, lap: &Lap) -> impl Iterator<Item = (u64, usize, usize)> {
        let of = move |message| {
            (0..self.size).step_by(CHUNK).map(move |offset| (message, offset, CHUNK.min(self.size - offset)))
        };
        lap.messages.clone().flat_map(of)
    }

    fn pattern(self, message: u64) -> Pattern {
        Pattern::new(message, message / self.places)
    }

    /// Generates a lap's bytes and passes them to `put` with their offset.
    pub(crate) fn fill(self, lap: &Lap, mut put: impl FnMut(usize, &[u8]) -> Outcome) -> Outcome {
        let mut chunk = vec![0; CHUNK.min(self.size)];
        for (message, offset, length) in self.chunks(lap) {
            self.pattern(message).fill(offset, &mut chunk[..length]);
            put(self.place(message) + offset, &chunk[..length])?;
        }
        Ok(())
    }

    /// Checks every byte of a lap. `get` reads the bytes at an offset.
    pub(crate) fn check(self, lap: &Lap, mut get: impl FnMut(usize, &mut [u8]) -> Outcome) -> Outcome {
        let mut chunk = vec![0; CHUNK.min(self.size)];
        for (message, offset, length) in self.chunks(lap) {
            get(self.place(message) + offset, &mut chunk[..length])?;
            if let Some(wrong) = self.pattern(message).wrong(offset, &chunk[..length]) {
                let size = self.size;
                return Err(format!("message {message} did not bring its byte {wrong} (of {size})").into());
            }
        }
        Ok(())
    }
}

/// Time and processor time of the measured laps.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    pub(crate) ns: u64,
    pub(crate) cpu_ns: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, lap: &Lap, meter: Meter) {
        let (ns, cpu_ns) = meter.stop();
        if lap.measured {
            self.ns += ns;
            self.cpu_ns += cpu_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_has_one_lap_and_place() {
        let laps = Laps { size: 8, count: 20, warmup: 3, places: 8 };
        let all: Vec<Lap> = laps.laps().collect();
        let messages: Vec<u64> = all.iter().flat_map(|lap| lap.messages.clone()).collect();
        assert_eq!(messages, (0..23).collect::<Vec<_>>());
        assert_eq!(all.iter().filter(|lap| lap.measured).count(), 3);
        for lap in all {
            let mut places: Vec<usize> = lap.messages.map(|message| laps.place(message)).collect();
            places.sort_unstable();
            places.dedup();
            assert!(places.len() as u64 <= 8 && places.iter().all(|place| place % 8 == 0 && *place < 64));
        }
    }

    #[test]
    fn missing_message_is_detected_in_its_lap() {
        let laps = Laps { size: CHUNK + 100, count: 6, warmup: 2, places: 2 };
        let mut memory = vec![0; laps.bytes()];
        for (round, lap) in laps.laps().enumerate() {
            let before = memory.clone();
            let fill = |memory: &mut Vec<u8>| {
                laps.fill(&lap, |at, bytes| {
                    memory[at..at + bytes.len()].copy_from_slice(bytes);
                    Ok(())
                })
            };
            let check = |memory: &[u8]| {
                laps.check(&lap, |at, bytes| {
                    bytes.copy_from_slice(&memory[at..at + bytes.len()]);
                    Ok(())
                })
            };
            fill(&mut memory).unwrap();
            check(&memory).unwrap();
            for place in 0..2 {
                let mut partly = memory.clone();
                // One byte is from the previous lap, or from fresh memory.
                let at = place * laps.size + CHUNK + 50;
                partly[at] = before[at];
                let error = check(&partly).unwrap_err().to_string();
                assert!(error.contains(&format!("its byte {}", CHUNK + 50)), "lap {round}: {error}");
            }
        }
    }
}
