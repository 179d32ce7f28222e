//! Questions that the other host's card answers by itself while that host's processor sleeps:
//! remote reads (section 3) and operations on its registers (section 2).

use clap::ValueEnum;
use hamlyn::ErrorKind;
use hamlyn::dart::Step;
use hamlyn::dart::programs::Caller;
use serde_json::json;

use crate::dart::deposits::BLOCK;
use crate::dart::ends::End;
use crate::engine::lap_words::{ASKED, DATA, PAGE, Words};
use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::PATIENCE;

/// Value of the bytes that are read.
const HELD: u8 = 0xda;
/// Registers: the one that changes, and the one with its next value.
const COUNTER: u8 = 0;
const OWN: u8 = 1;

/// What is asked.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Question {
    /// Reads 32 bytes of the peer's memory
    Read,
    /// Reads a register and increments it
    Increment,
    /// Reads a register and replaces its value if it was the expected one
    Swap,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// What is asked
    #[arg(long, value_enum, default_value = "read")]
    what: Question,
}

/// Holds the objects of the questions until the peer has finished.
pub(crate) fn hold() -> Outcome {
    let end = End::open(PAGE)?;
    end.endpoint.write(DATA, &[HELD; BLOCK])?;
    end.say(ASKED, 1)?;
    end.wait(ASKED, 0)?;
    say(&json!({ "held": HELD }))
}

pub(crate) fn ask(options: &Options) -> Outcome {
    let end = End::open(PAGE)?;
    // Ask nothing before the objects of the questions are ready.
    end.wait(ASKED, 0)?;
    let mut caller = Caller::new(end.connection.clone(), end.take_queue()?, end.scratch as u64 + 1024);
    caller = caller.with_timeout(PATIENCE);
    let result = options.rounds.measure(|round| {
        let found = match options.what {
            Question::Read => {
                let mut data = [0; BLOCK];
                caller.read(DATA as u64, &mut data)?;
                if data == [HELD; BLOCK] { round } else { round + 1 }
            }
            Question::Increment => caller.fetch(COUNTER, Step::Increment, 0)?.0,
            Question::Swap => caller.compare_and_swap(COUNTER, OWN, round, round + 1)?,
        };
        // Each round expects its own value, which shows that each operation was executed exactly
        // once.
        if found == round { Ok(()) } else { Err(format!("question {round} was answered {found}").into()) }
    })?;
    end.say(ASKED, 1)?;
    // This question follows the word, because closing the connection would drop pending messages.
    // Its answer shows that the peer has received the word. The same is true if the peer has exited
    // meanwhile.
    match caller.fetch(COUNTER, Step::Or, 0) {
        Err(error) if error.kind() == ErrorKind::PeerLost => {}
        answer => drop(answer?),
    }
    say(&result)
}
