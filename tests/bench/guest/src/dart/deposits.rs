//! Round trips of 32 bytes, the data of one cell. Each end polls its own memory, or sleeps until an
//! event, and deposits the answer in the peer's memory.

use hamlyn::Polling;
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
    /// How the receiver waits: poll reads its memory; every other mode sleeps at once until the
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
        let end = End::open(PAGE)?;
        end.set_polling(Polling::NEVER)?;
        Ok(Self { end, is_awake: options.wait == Wait::Poll })
    }

    /// Returns whether a round's message comes with an event. The first one comes only when the
    /// peer is ready: polling for it would starve the peer of the host's cores.
    fn is_told(&self, round: u64) -> bool {
        round == 0 || !self.is_awake
    }

    fn send(&self, round: u64) -> Outcome {
        let mut data = [0; BLOCK];
        mark(&mut data, round);
        let (from, write) = (self.end.scratch, Operation::write(DATA as u64));
        let write = if self.is_told(round) { write.tell() } else { write };
        // The previous message has left, because the peer answered it.
        self.end.endpoint.write(from, &data)?;
        Ok(self.end.connection.try_send(&write, from as u64..(from + BLOCK) as u64)?)
    }

    fn receive(&self, round: u64) -> Outcome {
        let mut data = [0; BLOCK];
        if self.is_told(round) {
            self.end.sleep()?;
        } else {
            // The last word arrives last.
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

/// Prints a result together with the card's counters for the same period.
fn said(trips: &Trips, act: impl FnOnce() -> Outcome<Value>) -> Outcome {
    let (mut result, counts) = counted(|| Ok(trips.end.card.statistics()?), act)?;
    result["counters"] = counts.json();
    say(&result)
}
