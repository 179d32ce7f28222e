//! Runs many seeds, several at a time, and reports the results.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use anyhow::{Context, bail};
use hamlyn_host::catalogue::{self, Model};
use hamlyn_sim::{Report, SIMULATIONS, Simulation};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::TERM_SIGNALS;
use tracing::subscriber::{NoSubscriber, with_default};

/// Parameters of a run.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) model: &'static Model,
    pub(crate) seeds: u64,
    /// The first seed.
    pub(crate) from: u64,
    /// Number of seeds that run in parallel, each in its own thread.
    pub(crate) jobs: u64,
    /// Number of cards in each fabric. If `None`, the seed decides.
    pub(crate) cards: Option<u16>,
}

impl Task {
    /// Returns the command that runs some of the seeds.
    fn command(&self, seeds: &str) -> String {
        let model = match self.model.name {
            name if name == catalogue::default().name => String::new(),
            name => format!(" --model {name}"),
        };
        format!("hamlyn sim{model} {seeds}")
    }
}

/// Totals over all seeds.
#[derive(Debug, Default)]
struct Totals {
    seeds: u64,
    steps: u64,
    faults: u64,
    /// The model's own counters.
    figures: BTreeMap<&'static str, u64>,
    violations: u64,
}

/// Runs all seeds, or until a signal asks to stop. Fails if a seed found a violation or was not
/// run.
pub(crate) fn run(task: &Task) -> anyhow::Result<()> {
    let simulation = SIMULATIONS.of(task.model)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        signal_hook::flag::register(*signal, stop.clone())
            .with_context(|| format!("cannot catch signal {signal}"))?;
    }
    let (next, (done, outcomes)) = (AtomicU64::new(0), mpsc::sync_channel(task.jobs as usize));
    let Totals { seeds, steps, faults, violations, .. } = thread::scope(|scope| {
        for _ in 0..task.jobs {
            let (done, stop, next) = (done.clone(), &stop, &next);
            scope.spawn(move || work(*simulation, task, next, stop, &done));
        }
        drop(done);
        collect(task, outcomes)
    })?;
    say(format_args!("seeds {seeds}, steps {steps}, faults {faults}, violations {violations}"))?;
    if seeds < task.seeds {
        let (next, left) = (task.from.wrapping_add(seeds), task.seeds - seeds);
        let rest = task.command(&format!("--from {next} --seeds {left}"));
        say(format_args!("stopped before seed {next}; the rest: {rest}"))?;
    }
    if violations > 0 {
        bail!("{violations} of {seeds} seeds found a violation");
    }
    if seeds < task.seeds {
        bail!("stopped after {seeds} of {} seeds", task.seeds);
    }
    Ok(())
}

/// Runs the next seed repeatedly, until none is left or `stop` is set.
fn work(
    simulation: Simulation,
    task: &Task,
    next: &AtomicU64,
    stop: &AtomicBool,
    done: &SyncSender<(u64, Report)>,
) {
    while !stop.load(Ordering::Relaxed) {
        let offset = next.fetch_add(1, Ordering::Relaxed);
        if offset >= task.seeds {
            return;
        }
        // Log messages of card and switch would drown the simulation's own output.
        let run = || simulation(task.from.wrapping_add(offset), task.cards);
        let outcome = with_default(NoSubscriber::new(), run);
        if done.send((offset, outcome)).is_err() {
            return;
        }
    }
}

/// Adds up the outcomes and reports violations in the order of the seeds, whichever threads ran
/// them and whenever.
fn collect(task: &Task, outcomes: Receiver<(u64, Report)>) -> anyhow::Result<Totals> {
    let bar = ProgressBar::new(task.seeds);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} seeds, {msg} ({eta})")?);
    let (mut totals, mut early) = (Totals::default(), BTreeMap::new());
    for (offset, outcome) in outcomes {
        early.insert(offset, outcome);
        while let Some(outcome) = early.remove(&totals.seeds) {
            totals.seeds += 1;
            totals.steps += outcome.steps;
            totals.faults += outcome.faults;
            for (name, count) in &outcome.figures {
                *totals.figures.entry(name).or_default() += count;
            }
            if outcome.violation.is_some() {
                totals.violations += 1;
                bar.suspend(|| report(task, &outcome))?;
            }
        }
        let figures = totals.figures.iter().map(|(name, count)| format!("{count} {name}, "));
        bar.set_message(format!("{}{} violations", figures.collect::<String>(), totals.violations));
        bar.set_position(totals.seeds);
    }
    bar.finish_and_clear();
    Ok(totals)
}

fn report(task: &Task, outcome: &Report) -> io::Result<()> {
    let Some(violation) = &outcome.violation else { return Ok(()) };
    for event in &outcome.events {
        say(format_args!("  {event}"))?;
    }
    say(format_args!("seed {}, step {}: {violation}", outcome.seed, outcome.steps))?;
    let cards = task.cards.map(|cards| format!(" --cards {cards}")).unwrap_or_default();
    say(format_args!("again: {}", task.command(&format!("--seeds 1 --from {}{cards}", outcome.seed))))
}

/// Writes a line. A closed output does not end the run: the exit status tells whether there were
/// violations.
fn say(line: fmt::Arguments<'_>) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
