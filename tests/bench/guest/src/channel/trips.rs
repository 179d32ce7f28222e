//! Round trips: a message is built, copied to the peer's ring, copied out there, checked, and sent
//! back.

use hamlyn_bench_guest::pattern::{check_mark, mark};

use crate::channel::either::{Act, connect, listen};
use crate::channel::end::{End, Way};
use crate::engine::result::{Outcome, Rounds, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    way: Way,
    /// Bytes of each message
    #[arg(long, default_value_t = 16)]
    size: usize,
}

struct Echo<'a>(&'a Options);
struct Ping<'a>(&'a Options);

pub(crate) fn echo(options: &Options) -> Outcome {
    listen(&options.way, Echo(options))
}

pub(crate) fn ping(options: &Options) -> Outcome {
    connect(&options.way, Ping(options))
}

impl Act for Echo<'_> {
    fn with(self, mut end: impl End) -> Outcome {
        let mut data = vec![0; self.0.size];
        say(&self.0.rounds.answer(|round| {
            if round == 0 {
                end.receive_first(&mut data)?
            } else {
                end.receive(&mut data)?
            }
            check_mark(&data, round)?;
            end.send(&data)
        })?)
    }
}

impl Act for Ping<'_> {
    fn with(self, mut end: impl End) -> Outcome {
        let mut data = vec![0xa5; self.0.size];
        say(&self.0.rounds.measure(|round| {
            mark(&mut data, round);
            end.send(&data)?;
            end.receive(&mut data)?;
            Ok(check_mark(&data, round)?)
        })?)
    }
}
