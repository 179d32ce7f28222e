//! `hamlyn demo`: two machines exchange messages.

mod scenes;
pub(super) mod stage;
mod table;

use std::io::{Write, stdout};

use anyhow::{Context, bail};
use clap::Args;
use hamlyn_host::catalogue::PerModel;

use super::MachineArgs;
use super::layout::Layout;
use crate::lab::Lab;
use scenes::{Intrusion, RoundTrips, Transfer};
use stage::Stage;
use table::Table;

/// Show two machines that exchange messages: round trips, transfers, and intruders that are refused
///
/// Starts a switch, two cards and two machines, runs programs of ordinary users in them, and ends with a table. Unless
/// --isolate is given, the round trips are made once more with a process for each card, to compare. The exit status is 0 only if
/// every byte arrived and every intruder was refused.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn demo
  hamlyn demo --isolate                          a process for each card, and no other layout
  hamlyn demo --count 1000000 --accel tcg        more round trips, and emulation even where KVM works
  hamlyn demo --paths 4                          the same while packets overtake each other in the switch")]
pub(super) struct DemoArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Round trips
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    count: u64,
}

/// What a transfer moves, and from how many send buffers it is gathered.
const TRANSFER_BYTES: u64 = 1 << 20;
const SEND_BUFFERS: u64 = 4;

/// The payload of a round trip, in bytes.
const PAYLOAD: u64 = 16;

/// What is shown of each model.
pub(super) const SCENES: PerModel<fn(&DemoArgs) -> anyhow::Result<()>> =
    PerModel::new("scenes for the demo", &[("hamlyn", show_hamlyn)]);

pub(super) fn run(args: DemoArgs) -> anyhow::Result<()> {
    SCENES.of(args.machine.model.model)?(&args)
}

fn show_hamlyn(args: &DemoArgs) -> anyhow::Result<()> {
    let stage = Stage::new();
    let layout = args.machine.layout.choose(2);
    let lab = start(&stage, args, &layout)?;
    stage.step("find the card's driver in both machines", |_| scenes::find_drivers(&lab))?;
    let mut round_trips = vec![(layout.clone(), round_trips_of(&stage, &lab, args.count)?)];
    let mut transfers = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        let transfer = Transfer { from, to, bytes: TRANSFER_BYTES, buffers: SEND_BUFFERS };
        let title = format!("1 MiB from vm{from} to vm{to}, every byte verified");
        transfers.push((transfer, stage.step(&title, |_| transfer.run(&lab))?));
    }
    let mut refusals = Vec::new();
    for intrusion in [Intrusion::WrongKey, Intrusion::PastEnd] {
        let refused = stage.step(intrusion.title(), |_| intrusion.run(&lab))?;
        refusals.push((intrusion, refused));
    }
    lab.check().context("after the last message")?;
    drop(lab);
    if layout != Layout::Isolated {
        let lab = start(&stage, args, &Layout::Isolated)?;
        round_trips.push((Layout::Isolated, round_trips_of(&stage, &lab, args.count)?));
        lab.check().context("after the last round trip")?;
    }
    let table = Table { payload: PAYLOAD, round_trips, transfers, refusals };
    write!(stdout(), "\n{table}")?;
    for (layout, trips) in &table.round_trips {
        if trips.count != args.count {
            bail!("{} round trips of {} were made ({layout})", trips.count, args.count);
        }
    }
    Ok(())
}

fn start(stage: &Stage, args: &DemoArgs, layout: &Layout) -> anyhow::Result<Lab> {
    let title = format!("start a switch, 2 cards and 2 machines ({})", args.machine.accel.decide()?);
    let lab = stage.step(&title, |tell| args.machine.lab(2, layout).progress(tell).start())?;
    stage.note(&layout.to_string());
    Ok(lab)
}

fn round_trips_of(stage: &Stage, lab: &Lab, count: u64) -> anyhow::Result<RoundTrips> {
    let title = format!("{count} round trips of {PAYLOAD} bytes");
    stage.step(&title, |_| scenes::round_trips(lab, count, PAYLOAD))
}
