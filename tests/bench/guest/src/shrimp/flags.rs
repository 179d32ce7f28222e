//! A flag's round trip by automatic update. Each end polls a word of its own memory, and stores the
//! answer to memory that is mapped out. Data may precede the flag; it has arrived when the flag has
//! (section 4.1).

use std::time::Instant;

use hamlyn::shrimp::ReceiveBuffer;
use hamlyn_bench_guest::pattern::{check_mark, mark};
use serde_json::Value;

use crate::engine::counts;
use crate::engine::lap_words::{PAGE, Words};
use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::PATIENCE;
use crate::shrimp::ends::{By, End};

/// Offsets of the flag and of the data that precedes it.
const FLAG: usize = 0;
const DATA: usize = 64;
/// Polls between two reads of the clock.
const LOOKS: u32 = 1 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Bytes of data that are stored before the flag
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=4032))]
    size: u32,
    /// How stores reach the card
    #[arg(long, value_enum, default_value = "snoop")]
    by: By,
}

pub(crate) fn echo(options: &Options) -> Outcome {
    let end = End::open(PAGE, options.by)?;
    let mut data = vec![0; options.size as usize];
    counted(&end, || {
        options.rounds.answer(|round| {
            if round == 0 {
                // The first flag comes only when the peer is ready. Polling for it would starve the
                // peer of the host's cores.
                end.own.wait_timeout(FLAG, 0, PATIENCE)?;
            }
            receive(&end, &mut data, round)?;
            send(&end, &mut data, round)
        })
    })
}

pub(crate) fn ping(options: &Options) -> Outcome {
    let end = End::open(PAGE, options.by)?;
    let mut data = vec![0; options.size as usize];
    counted(&end, || {
        options.rounds.measure(|round| {
            send(&end, &mut data, round)?;
            receive(&end, &mut data, round)
        })
    })
}

fn counted(end: &End, act: impl FnOnce() -> Outcome<Value>) -> Outcome {
    let (mut said, counts) = counts::counted(|| end.statistics(), act)?;
    said["counters"] = counts.json();
    say(&said)
}

fn send(end: &End, data: &mut [u8], round: u64) -> Outcome {
    if !data.is_empty() {
        mark(data, round);
        end.out.write(DATA, data)?;
    }
    Ok(end.out.store_u32(FLAG, flag(round))?)
}

fn receive(end: &End, data: &mut [u8], round: u64) -> Outcome {
    poll(&end.own, FLAG, flag(round))?;
    if data.is_empty() {
        return Ok(());
    }
    end.own.read(DATA, data)?;
    Ok(check_mark(data, round)?)
}

/// Returns the flag of a round: different in each round, and never the zero of fresh memory.
fn flag(round: u64) -> u32 {
    (round as u32).wrapping_add(1)
}

/// Polls a word until it has the given value.
fn poll(own: &ReceiveBuffer, word: usize, value: u32) -> Outcome {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        for _ in 0..LOOKS {
            if own.load_u32(word)? == value {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }
    Err(format!("the flag {value} did not come within {PATIENCE:?}").into())
}
