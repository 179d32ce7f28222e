//! `hamlyn sim`

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use anyhow::{Context, bail};
use clap::Args;
use hamlyn_host::catalogue::PerModel;
use hamlyn_sim::Outcome;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::TERM_SIGNALS;
use tracing::subscriber::{NoSubscriber, with_default};

use super::options::ModelFlag;

/// Runs a fabric as a seed decides, of so many cards if that is said.
type Simulation = fn(u64, Option<u16>) -> Outcome;

/// The simulations that there are.
pub(super) const SIMULATIONS: PerModel<Simulation> =
    PerModel::new("simulation", &[("hamlyn", hamlyn_sim::run)]);

/// Simulate whole fabrics, each in one thread and decided by a seed
///
/// Real cards, links and library, a real switch; honest and hostile processes; streams, and connections that operating
/// systems set up and watch; packets that change places, ports that go down, processes that die, hosts that stop.
/// Everything is checked after every step. What went wrong is said in the order of the seeds, however many run at a time.
/// Ends with a line of totals; Ctrl-C ends it sooner, and it says how far it was. The exit status is 1 if something was
/// wrong, or if it was stopped.
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=8))]
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
}

/// What many seeds came to.
#[derive(Debug, Default)]
struct Totals {
    seeds: u64,
    steps: u64,
    faults: u64,
    connections: u64,
    violations: u64,
}

pub(super) fn run_seeds(args: SimArgs) -> anyhow::Result<()> {
    let simulation = SIMULATIONS.of(args.model.model)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        signal_hook::flag::register(*signal, stop.clone())
            .with_context(|| format!("cannot catch signal {signal}"))?;
    }
    let (next, jobs) = (AtomicU64::new(0), args.jobs());
    let totals = thread::scope(|scope| {
        let (done, outcomes) = mpsc::sync_channel(jobs);
        for _ in 0..jobs {
            let (done, stop, next, args) = (done.clone(), &stop, &next, &args);
            scope.spawn(move || work(*simulation, args, next, stop, &done));
        }
        drop(done);
        collect(&args, &outcomes)
    })?;
    let Totals { seeds, steps, faults, violations, .. } = totals;
    println!("seeds {seeds}, steps {steps}, faults {faults}, violations {violations}");
    if seeds < args.seeds.get() {
        let next = args.from.wrapping_add(seeds);
        println!(
            "stopped before seed {next}; the rest: hamlyn sim --from {next} --seeds {}",
            args.seeds.get() - seeds
        );
    }
    if violations > 0 {
        bail!("{violations} of {seeds} seeds found a violation");
    }
    if seeds < args.seeds.get() {
        bail!("stopped after {seeds} of {} seeds", args.seeds);
    }
    Ok(())
}

/// Runs one seed after the other, whichever is next, until there are no more or it is to stop.
fn work(
    simulation: Simulation,
    args: &SimArgs,
    next: &AtomicU64,
    stop: &AtomicBool,
    done: &SyncSender<(u64, Outcome)>,
) {
    while !stop.load(Ordering::Relaxed) {
        let offset = next.fetch_add(1, Ordering::Relaxed);
        if offset >= args.seeds.get() {
            return;
        }
        // What card and switch have to log would drown what the simulation has to say.
        let run = || simulation(args.from.wrapping_add(offset), args.cards);
        let outcome = with_default(NoSubscriber::new(), run);
        if done.send((offset, outcome)).is_err() {
            return;
        }
    }
}

/// Adds outcomes up and reports violations, in the order of the seeds, whoever ran them and whenever.
fn collect(args: &SimArgs, outcomes: &Receiver<(u64, Outcome)>) -> anyhow::Result<Totals> {
    let bar = ProgressBar::new(args.seeds.get());
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} seeds, {msg} ({eta})")?);
    let (mut totals, mut early) = (Totals::default(), BTreeMap::new());
    for (offset, outcome) in outcomes {
        early.insert(offset, outcome);
        while let Some(outcome) = early.remove(&totals.seeds) {
            totals.seeds += 1;
            totals.steps += outcome.steps;
            totals.faults += outcome.faults;
            totals.connections += outcome.connections;
            if outcome.violation.is_some() {
                totals.violations += 1;
                bar.suspend(|| report(&outcome, args.cards));
            }
        }
        let Totals { seeds, connections, violations, .. } = totals;
        bar.set_message(format!("{connections} connections, {violations} violations"));
        bar.set_position(seeds);
    }
    bar.finish_and_clear();
    Ok(totals)
}

fn report(outcome: &Outcome, cards: Option<u16>) {
    let Some(violation) = &outcome.violation else { return };
    for event in &outcome.events {
        println!("  {event}");
    }
    println!("seed {}, step {}: {violation}", outcome.seed, outcome.steps);
    let cards = cards.map(|cards| format!(" --cards {cards}")).unwrap_or_default();
    println!("again: hamlyn sim --seeds 1 --from {}{cards}", outcome.seed);
}
