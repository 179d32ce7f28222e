//! A word's round trip by programmed I/O: each end looks at a word of its own memory, or sleeps
//! until it is stored to, and stores the answer to the other's. And a load across the network.

use hamlyn_bench_guest::pattern::{check_mark, mark};
use serde_json::{Value, json};

use crate::clan::ends::End;
use crate::engine::counts::counted;
use crate::engine::lap_words::{ASKED, PAGE, Words};
use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::Wait;

/// Data that comes before the word.
const DATA: usize = 64;
/// What is loaded.
const HELD: u32 = 0x0c1a_0c1a;
const HELD_AT: usize = 128;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Bytes of data that are stored before the word
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=4032))]
    size: u32,
    /// How the receiver waits: all but poll sleep at once
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

    /// The first one comes when the peer is ready: whoever polls for that starves it of the host's
    /// cores.
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

/// Each round's own, and never the zero of fresh memory.
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

/// Says a result, with what the card has counted meanwhile.
fn said<'a>(trips: &mut Trips<'a>, act: impl FnOnce(&mut Trips<'a>) -> Outcome<Value>) -> Outcome {
    let card = trips.end.card.clone();
    let (mut result, counts) = counted(|| Ok(card.statistics()?), || act(trips))?;
    result["counters"] = counts.json();
    say(&result)
}

/// Has a word, until the other has seen enough of it.
pub(crate) fn hold() -> Outcome {
    let end = End::open(PAGE, false)?;
    end.own.store_u32(HELD_AT, HELD)?;
    // The other loads nothing before it has heard that the word is there.
    end.say(ASKED, 1)?;
    end.wait(ASKED, 0)?;
    say(&json!({ "held": HELD }))
}

/// The processor stands still while a load is under way.
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
