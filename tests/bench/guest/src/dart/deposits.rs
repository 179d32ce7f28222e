//! Round trips of 32 bytes, the data of one cell: each end looks at its own memory, or sleeps until
//! it is told, and deposits the answer in the other's.

use hamlyn::dart::Operation;
use hamlyn_bench_guest::pattern::{check_mark, mark};
use serde_json::Value;

use crate::dart::ends::End;
use crate::engine::counts::counted;
use crate::engine::lap_words::{DATA, PAGE};
use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::Wait;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// How the receiver waits: poll looks at its memory; all else sleeps at once until the
    /// message's event
    #[arg(long, value_enum, default_value = "poll")]
    wait: Wait,
}

struct Trips {
    end: End,
    is_awake: bool,
}

impl Trips {
    fn open(options: &Options) -> Outcome<Self> {
        Ok(Self { end: End::open(PAGE)?, is_awake: options.wait == Wait::Poll })
    }

    /// The first one comes when the peer is ready: whoever polls for that starves it of the host's
    /// cores.
    fn is_told(&self, round: u64) -> bool {
        round == 0 || !self.is_awake
    }

    fn send(&self, round: u64) -> Outcome {
        let mut data = [0; BLOCK];
        mark(&mut data, round);
        let (from, write) = (self.end.scratch, Operation::write(DATA as u64));
        let write = if self.is_told(round) { write.tell() } else { write };
        // The one before has left: it was answered.
        self.end.endpoint.write(from, &data)?;
        Ok(self.end.connection.send(&write, from as u64..(from + BLOCK) as u64)?)
    }

    fn receive(&self, round: u64) -> Outcome {
        let mut data = [0; BLOCK];
        if self.is_told(round) {
            self.end.sleep()?;
        } else {
            // The last word comes last.
            mark(&mut data, round);
            let [.., a, b, c, d] = data;
            self.end.poll(DATA + BLOCK - 4, u32::from_le_bytes([a, b, c, d]))?;
        }
        self.end.endpoint.read(DATA, &mut data)?;
        Ok(check_mark(&data, round)?)
    }
}

pub(crate) fn echo(options: &Options) -> Outcome {
    let trips = Trips::open(options)?;
    said(&trips, || {
        options.rounds.answer(|round| {
            trips.receive(round)?;
            trips.send(round)
        })
    })
}

pub(crate) fn ping(options: &Options) -> Outcome {
    let trips = Trips::open(options)?;
    said(&trips, || {
        options.rounds.measure(|round| {
            trips.send(round)?;
            trips.receive(round)
        })
    })
}

/// Says a result, with what the card has counted meanwhile.
fn said(trips: &Trips, act: impl FnOnce() -> Outcome<Value>) -> Outcome {
    let (mut result, counts) = counted(|| Ok(trips.end.card.statistics()?), act)?;
    result["counters"] = counts.json();
    say(&result)
}
