//! A stream of stores by automatic update (section 4.1): the same stores by single-write, which
//! makes each one a packet, and by blocked-write, which merges them.

use clap::ValueEnum;
use hamlyn::shrimp;

use crate::engine::lap_words::{ASKED, DATA, PAGE, Words, sink as sink_laps, source};
use crate::engine::laps::Laps;
use crate::engine::result::Outcome;
use crate::shrimp::ends::{By, End};

/// Bytes of a store.
const WORD: usize = 8;

/// How the card treats consecutive stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Sends each store as a packet
    Single,
    /// Merges them
    Blocked,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    laps: Laps,
    /// How the card treats consecutive stores
    #[arg(long, value_enum, default_value = "single")]
    mode: Mode,
    /// How stores reach the card
    #[arg(long, value_enum, default_value = "snoop")]
    by: By,
    /// Number of a run of stores to leave out, to test that the receiver detects it
    #[arg(long, hide = true)]
    leave_out: Option<u64>,
}

pub(crate) fn sink(options: &Options) -> Outcome {
    let laps = options.laps;
    sink_laps(&End::open(DATA + laps.bytes(), options.by)?, laps)
}

pub(crate) fn send(options: &Options) -> Outcome {
    let laps = options.laps;
    if laps.size % WORD != 0 {
        return Err(format!("{} bytes are not a multiple of a store's {WORD}", laps.size).into());
    }
    let end = End::open(PAGE, options.by)?;
    let mode = match options.mode {
        Mode::Single => shrimp::Mode::Single,
        Mode::Blocked => shrimp::Mode::Blocked,
    };
    let pages = end.card.map(&end.peer, DATA as u64, laps.bytes(), mode)?;
    // Compute the words in advance, because the card would send stores to the pages at once.
    let words = std::cell::RefCell::new(vec![0_u64; laps.bytes() / WORD]);
    let fill = |lap: &_| {
        let mut words = words.borrow_mut();
        laps.fill(lap, |at, bytes| {
            let places = words[at / WORD..].iter_mut().zip(bytes.chunks_exact(WORD));
            places.for_each(|(word, bytes)| *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
            Ok(())
        })
    };
    source(&end, laps, fill, |lap, number| {
        let words = words.borrow();
        for run in lap.messages.clone().filter(|run| options.leave_out != Some(*run)) {
            let start = laps.place(run);
            for at in (start..start + laps.size).step_by(WORD) {
                pages.store_u64(at, words[at / WORD])?;
            }
        }
        end.say(ASKED, number)
    })
}
