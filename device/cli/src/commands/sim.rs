//! `hamlyn sim`: the flags and their help. Another program, `hamlyn-sim`, located beside this one,
//! runs the simulation. It needs the guest's library, which nothing else here needs.

use std::env;
use std::io::ErrorKind;
use std::num::{NonZeroU64, NonZeroUsize};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, anyhow};
use clap::Args;

use super::options::ModelFlag;

/// Simulate whole fabrics, each in one thread and determined by a seed
///
/// A simulation has real cards, links, library and switch, honest and hostile processes, streams,
/// and connections that operating systems set up and monitor. Packets are reordered, ports go down,
/// processes die, and hosts stop. Everything is checked after every step. Failures are reported in
/// the order of the seeds, however many run at a time. It ends with a line of totals; Ctrl-C ends
/// it sooner, and it reports its progress. The exit status is 1 if something was wrong, or if it
/// was stopped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn sim                     a thousand seeds
  hamlyn sim --seeds 100000 --from 5000
  hamlyn sim --seeds 1 --from 42 --cards 8     one seed again, with eight cards")]
pub(super) struct SimArgs {
    #[command(flatten)]
    model: ModelFlag,
    /// Number of seeds
    #[arg(long, value_name = "N", default_value = "1000")]
    seeds: NonZeroU64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Number of cards in each fabric [default: the seed chooses]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=16))]
    cards: Option<u16>,
    /// Number of seeds that run at a time, each in its own thread [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

impl SimArgs {
    fn jobs(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.jobs.map_or_else(cores, usize::from)
    }

    /// Returns the arguments of `hamlyn-sim`: all values, in the order that it expects.
    fn words(&self) -> Vec<String> {
        let numbers = [self.seeds.get(), self.from, self.jobs() as u64];
        let numbers = numbers.into_iter().chain(self.cards.map(u64::from)).map(|number| number.to_string());
        [self.model.model.name.to_owned()].into_iter().chain(numbers).collect()
    }
}

/// Becomes `hamlyn-sim`. Returns only if that fails.
pub(super) fn run(args: &SimArgs) -> anyhow::Result<()> {
    let program =
        env::current_exe().context("cannot find this program's own file")?.with_file_name("hamlyn-sim");
    let error = Command::new(&program).args(args.words()).exec();
    let place = program.display();
    Err(match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "there is no {place}, which does this; ./scripts/prepare builds it, as does cargo build -p hamlyn-sim \
             (with the --release or --target with which hamlyn was built)"
        ),
        _ => anyhow!(error).context(format!("cannot start {place}")),
    })
}
