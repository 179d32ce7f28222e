//! `hamlyn demo`: two machines exchange messages.

mod channel;
mod clan;
mod dart;
mod echo;
mod hamlyn;
pub(super) mod show;
mod shrimp;
pub(super) mod stage;

use anyhow::anyhow;
use clap::Args;

use super::MachineArgs;
use super::layout::Layout;
use hamlyn_host::catalogue::PerModel;
use hamlyn_lab::{Lab, MODULE};
use show::Show;
use stage::Stage;

/// Show two machines that exchange messages: round trips, transfers, and refused intruders
///
/// Starts a switch, two cards and two machines, runs programs of ordinary users in them, and prints
/// a table at the end. Unless --isolate is given, it repeats the round trips with a process for
/// each card, to compare. The exit status is 0 only if every byte arrived and every intruder was
/// refused.
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
    /// Number of round trips
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    count: u64,
}

/// The entries by model.
pub(in crate::commands) static SHOWS: PerModel<&Show> = PerModel::new(
    "scenes for the demo",
    &[
        ("hamlyn", &hamlyn::SHOW),
        ("echo", &echo::SHOW),
        ("shrimp", &shrimp::SHOW),
        ("clan", &clan::SHOW),
        ("dart", &dart::SHOW),
    ],
);

pub(super) fn run(args: DemoArgs) -> anyhow::Result<()> {
    (SHOWS.of(args.machine.model.one()?)?.scenes)(&args)
}

fn start(stage: &Stage, args: &DemoArgs, layout: &Layout) -> anyhow::Result<Lab> {
    let title = format!("start a switch, 2 cards and 2 machines ({})", args.machine.accelerator()?);
    let lab = stage.step(&title, |tell| args.machine.lab(2, layout)?.progress(tell).start())?;
    stage.note(&layout.to_string());
    stage.note_each(lab.stores());
    Ok(lab)
}

/// Checks that every machine's kernel has loaded the module, and that the module has found the
/// card: its node exists.
fn find_drivers(lab: &Lab, model: &str) -> anyhow::Result<()> {
    for vm in lab.vms() {
        let found =
            vm.require_module(MODULE).and_then(|()| vm.read(&format!("/sys/class/{model}/{model}0/holders")));
        found.map_err(|error| anyhow!("no driver for a {model} card: {error:#}\n{}", vm.kernel_log()))?;
    }
    Ok(())
}
