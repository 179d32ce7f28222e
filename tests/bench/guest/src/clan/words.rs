//! A word's round trip by programmed I/O, and a load across the network. In a round trip, each end
//! polls a word of its own memory, or sleeps until a store to it. It then stores the answer to the
//! peer's memory.

use hamlyn_bench_guest::pattern::{check_mark, mark};
use serde_json::{Value, json};

use crate::clan::ends::End;
use crate::engine::counts::counted;
use crate::engine::lap_words::{ASKED, PAGE, Words};
use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::Wait;

/// Offset of the data that is stored before the word.
const DATA: usize = 64;
/// Value that the peer loads.
const HELD: u32 = 0x0c1a_0c1a;
const HELD_AT: usize = 128;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Bytes of data that are stored before the word
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=4032))]
    size: u32,
    /// How the receiver waits: every mode but poll sleeps at once
    #[arg(long, value_enum, default_value = "poll")]
    wait: Wait,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LoadOptions {
    #[command(flatten)]
    rounds: Rounds,
}

/// One end of the round trips.
struct Trips<'a> {
    end: End,
    data: Vec<u8>,
    options: &'a Options,
}

impl<'a> Trips<'a> {
    fn open(options: &'a Options) -> Outcome<Self> {
        let end = End::open(PAGE, false)?;
        if options.wait != Wait::Poll {
            end.sleep_at_once();
        }
        Ok(Self { end, data: vec![0; options.size as usize], options })
    }

    fn send(&mut self, round: u64) -> Outcome {
        if !self.data.is_empty() {
            mark(&mut self.data, round);
            self.end.out.write(DATA, &self.data)?;
        }
        self.end.say(ASKED, word(round))
    }

    /// Receives a message. The first one comes only when the peer is ready, so it is waited for
    /// asleep: polling for it would starve the peer of the host's cores.
    fn receive(&mut self, round: u64) -> Outcome {
        if round == 0 || self.options.wait != Wait::Poll {
            self.end.wait(ASKED, word(round).wrapping_sub(1))?;
        }
        self.end.poll(ASKED, word(round))?;
        if self.data.is_empty() {
            return Ok(());
        }
        self.end.own.read(DATA, &mut self.data)?;
        Ok(check_mark(&self.data, round)?)
    }
}

/// Returns the word of a round: different in each round, and never the zero of fresh memory.
fn word(round: u64) -> u32 {
    (round as u32).wrapping_add(1)
}

pub(crate) fn echo(options: &Options) -> Outcome {
    let mut trips = Trips::open(options)?;
    said(&mut trips, |trips| {
        options.rounds.answer(|round| {
            trips.receive(round)?;
            trips.send(round)
        })
    })
}

pub(crate) fn ping(options: &Options) -> Outcome {
    let mut trips = Trips::open(options)?;
    said(&mut trips, |trips| {
        options.rounds.measure(|round| {
            trips.send(round)?;
            trips.receive(round)
        })
    })
}

/// Prints a result together with the card's counters for the same period.
fn said<'a>(trips: &mut Trips<'a>, act: impl FnOnce(&mut Trips<'a>) -> Outcome<Value>) -> Outcome {
    let card = trips.end.card.clone();
    let (mut result, counts) = counted(|| Ok(card.statistics()?), || act(trips))?;
    result["counters"] = counts.json();
    say(&result)
}

/// Holds a word until the peer has loaded it often enough.
pub(crate) fn hold() -> Outcome {
    let end = End::open(PAGE, false)?;
    end.own.store_u32(HELD_AT, HELD)?;
    // The peer loads nothing before it knows that the word is in place.
    end.say(ASKED, 1)?;
    end.wait(ASKED, 0)?;
    say(&json!({ "held": HELD }))
}

/// Measures remote loads. The processor stalls while a load is in flight.
pub(crate) fn load(options: &LoadOptions) -> Outcome {
    let end = End::open(PAGE, false)?;
    end.wait(ASKED, 0)?;
    let result = options.rounds.measure(|_| match end.out.load_u32(HELD_AT)? {
        HELD => Ok(()),
        other => Err(format!("a load gave {other:#x}, not {HELD:#x}").into()),
    })?;
    end.say(ASKED, 1)?;
    say(&result)
}
