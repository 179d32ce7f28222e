//! `hamlyn stat`

pub(super) mod parts;
pub(super) mod table;

use std::io::{Write, stdout};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use hamlyn_host::rundir;
use hamlyn_host::stat::{self, Report};

/// Show the counters of running cards and switches
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn stat                    a table for each process
  hamlyn stat --watch            the same every second, with changes per second
  hamlyn stat --json | jq '.[] | {name, refused: .counters.card.refused_key}'")]
pub(super) struct StatArgs {
    /// Print one JSON array, with an object for each process
    #[arg(long)]
    json: bool,
    /// Also show counters that are zero
    #[arg(long)]
    all: bool,
    /// Print again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

pub(super) fn run(args: StatArgs) -> anyhow::Result<()> {
    let mut before: Vec<Report> = Vec::new();
    let mut then = Instant::now();
    loop {
        let reports = stat::all()?;
        let ago = then.elapsed().as_secs_f64();
        then = Instant::now();
        show(&args, &reports, &before, ago)?;
        if !args.watch {
            return Ok(());
        }
        before = reports;
        sleep(Duration::from_secs(1));
    }
}

fn show(args: &StatArgs, reports: &[Report], before: &[Report], ago: f64) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(reports)?)?;
        return Ok(());
    }
    if args.watch {
        // Clear the screen and go to its top.
        write!(out, "\x1b[2J\x1b[H")?;
    }
    if reports.is_empty() {
        writeln!(out, "{}", nothing())?;
    }
    table::print(&mut out, reports, args.all, before, ago)?;
    Ok(())
}

/// Says that no process has counters.
pub(super) fn nothing() -> String {
    format!("no card or switch is running (looked in {})", rundir::path().display())
}
