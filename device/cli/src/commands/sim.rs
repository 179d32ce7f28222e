//! `hamlyn sim`

use std::num::NonZeroU64;

use anyhow::bail;
use clap::Args;
use hamlyn_sim::{Outcome, run};
use indicatif::{ProgressBar, ProgressStyle};
use tracing::subscriber::{NoSubscriber, with_default};

/// Simulate whole fabrics in one thread, each decided by a seed
///
/// Real cards, links and library, a real switch; honest and hostile processes; streams, and connections that operating
/// systems set up and watch; packets that change places, ports that go down, processes that die, hosts that stop. Everything is checked after every step. Ends with a line of totals; the exit
/// status is 1 if something was wrong.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn sim                     a thousand seeds
  hamlyn sim --seeds 100000 --from 5000
  hamlyn sim --seeds 1 --from 42 --cards 8     one seed again, with eight cards")]
pub(super) struct SimArgs {
    /// How many seeds
    #[arg(long, value_name = "N", default_value = "1000")]
    seeds: NonZeroU64,
    /// The first of them
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Cards in each fabric; else the seed chooses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=8))]
    cards: Option<u16>,
}

pub(super) fn run_seeds(args: SimArgs) -> anyhow::Result<()> {
    let bar = ProgressBar::new(args.seeds.get());
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} seeds, {msg} ({eta})")?);
    let (mut steps, mut faults, mut connections, mut violations) = (0, 0, 0, 0_u64);
    for seed in (0..args.seeds.get()).map(|offset| args.from.wrapping_add(offset)) {
        // What card and switch have to log would drown what the simulation has to say.
        let outcome = with_default(NoSubscriber::new(), || run(seed, args.cards));
        steps += outcome.steps;
        faults += outcome.faults;
        connections += outcome.connections;
        if outcome.violation.is_some() {
            violations += 1;
            bar.suspend(|| report(&outcome, args.cards));
        }
        bar.set_message(format!("{connections} connections, {violations} violations"));
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!("seeds {}, steps {steps}, faults {faults}, violations {violations}", args.seeds);
    if violations > 0 {
        bail!("{violations} of {} seeds found a violation", args.seeds);
    }
    Ok(())
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
