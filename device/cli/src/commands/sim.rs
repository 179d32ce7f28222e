//! `hamlyn sim`: the flags and their help. What they ask for is done by another program,
//! `hamlyn-sim`, which lies beside this one: it needs the guest's library, which nothing else here
//! does.

use std::env;
use std::io::ErrorKind;
use std::num::{NonZeroU64, NonZeroUsize};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, anyhow};
use clap::Args;

use super::options::ModelFlag;

/// Simulate whole fabrics, each in one thread and decided by a seed
///
/// Real cards, links and library, a real switch; honest and hostile processes; streams, and
/// connections that operating systems set up and watch; packets that change places, ports that go
/// down, processes that die, hosts that stop. Everything is checked after every step. What went
/// wrong is said in the order of the seeds, however many run at a time. Ends with a line of totals;
/// Ctrl-C ends it sooner, and it says how far it was. The exit status is 1 if something was wrong,
/// or if it was stopped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn sim                     a thousand seeds
  hamlyn sim --seeds 100000 --from 5000
  hamlyn sim --seeds 1 --from 42 --cards 8     one seed again, with eight cards")]
pub(super) struct SimArgs {
    #[command(flatten)]
    model: ModelFlag,
    /// How many seeds
    #[arg(long, value_name = "N", default_value = "1000")]
    seeds: NonZeroU64,
    /// The first of them
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Cards in each fabric; else the seed chooses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=16))]
    cards: Option<u16>,
    /// Seeds that run at a time, each in a thread of its own; by default as many as there are cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

impl SimArgs {
    fn jobs(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.jobs.map_or_else(cores, usize::from)
    }

    /// What `hamlyn-sim` is told: everything, in an order that it knows.
    fn words(&self) -> Vec<String> {
        let numbers = [self.seeds.get(), self.from, self.jobs() as u64];
        let numbers = numbers.into_iter().chain(self.cards.map(u64::from)).map(|number| number.to_string());
        [self.model.model.name.to_owned()].into_iter().chain(numbers).collect()
    }
}

/// Becomes `hamlyn-sim`: it returns only if it cannot.
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
