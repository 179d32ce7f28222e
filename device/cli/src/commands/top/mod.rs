//! `hamlyn top`

mod columns;
mod keys;
mod rates;
mod reading;
mod screen;
mod terminal;

use std::io::{IsTerminal, Write, stdin, stdout};
use std::thread::sleep;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, value_parser};

use super::stat::nothing;

/// Show rates of running cards and switches on one screen
///
/// Lists the machines, cards and ports of this user, with packets (or messages) and bytes per
/// second, refusals, sleepers that were woken, and what waits for room. The arrows and the Page
/// keys scroll; q or Ctrl-C leaves. A process that does not answer within 5 s is named.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn top                     until q
  hamlyn top --every 5           rates over 5 s
  hamlyn top --once              one table as text, for scripts; needs no terminal

Columns:
  refused     refusals of all kinds: by name in hamlyn stat
  wake-ups/s  interrupts for programs that slept, and doorbells for cards that slept
  waits/s     times that a card or its FIFO waited for room
  waiting     packets that wait in the switch for this port, now
  stalls/s    packets of this port that had to wait for another
  stops/s     times that this port's card was stopped for a host
  blocked/s   times that this port had to wait as a whole
  lost        packets of or to this port that were not delivered")]
pub(super) struct TopArgs {
    /// Time between two readings, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Print one table of the rates between two readings, and end
    #[arg(long)]
    once: bool,
}

pub(super) fn run(args: &TopArgs) -> anyhow::Result<()> {
    let every = Duration::from_secs(args.every);
    if args.once {
        return once(every);
    }
    ensure!(
        stdin().is_terminal() && stdout().is_terminal(),
        "standard input and output must be a terminal: hamlyn top --once prints one table as text"
    );
    terminal::run(every)
}

fn once(every: Duration) -> anyhow::Result<()> {
    let before = reading::take(None)?;
    let mut out = stdout().lock();
    if before.is_empty() {
        return Ok(writeln!(out, "{}", nothing())?);
    }
    sleep(every);
    let now = reading::take(Some(&before))?;
    for line in rates::lines(&now, Some(&before)) {
        writeln!(out, "{}", line.text)?;
    }
    Ok(())
}
