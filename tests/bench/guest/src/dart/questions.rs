//! Questions that the other host's card answers by itself, while that host's processor sleeps: a
//! remote read (section 3), and operations on its registers (section 2).

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

/// What the memory that is read has.
const HELD: u8 = 0xda;
/// Registers: the one that is changed, and what is to be in it next.
const COUNTER: u8 = 0;
const OWN: u8 = 1;

/// What is asked.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Question {
    /// 32 bytes of its memory
    Read,
    /// A register, which is one more then
    Increment,
    /// A register, which has another value then if it was what is expected
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

/// Has what is asked about until the other has asked enough.
pub(crate) fn hold() -> Outcome {
    let end = End::open(PAGE)?;
    end.endpoint.write(DATA, &[HELD; BLOCK])?;
    end.say(ASKED, 1)?;
    end.wait(ASKED, 0)?;
    say(&json!({ "held": HELD }))
}

pub(crate) fn ask(options: &Options) -> Outcome {
    let end = End::open(PAGE)?;
    // It asks nothing before what it asks about is there.
    end.wait(ASKED, 0)?;
    let mut caller = Caller::new(end.connection.clone(), end.take_queue()?, end.scratch as u64 + 1024);
    caller = caller.timeout(Some(PATIENCE));
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
        // Each round's own: so it was executed, and once.
        if found == round { Ok(()) } else { Err(format!("question {round} was answered {found}").into()) }
    })?;
    end.say(ASKED, 1)?;
    // Behind it, since what still waits there would go with this end's connection. When this is
    // answered the other has heard it; so it has if the other is gone meanwhile.
    match caller.fetch(COUNTER, Step::Or, 0) {
        Err(error) if error.kind() == ErrorKind::PeerLost => {}
        answer => drop(answer?),
    }
    say(&result)
}
