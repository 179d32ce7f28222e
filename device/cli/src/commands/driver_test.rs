//! `hamlyn driver-test`

use std::io::{self, Write, stdout};
use std::path::Path;

use anyhow::{Context, anyhow};
use clap::Args;

use super::MachineArgs;
use super::demo::SHOWS;
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Kit, Lab, MODULE};

/// Load the kernel module in a fresh machine and test it there
///
/// The loaded module must be the one of the kit: both have the same build id. If the test fails, it
/// prints the end of the machine's kernel log and the blocked tasks.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hamlyn driver-test
  hamlyn driver-test --accel tcg     by emulation, even where KVM works")]
pub(super) struct DriverTestArgs {
    #[command(flatten)]
    machine: MachineArgs,
}

pub(super) fn run(args: DriverTestArgs) -> anyhow::Result<()> {
    let model = args.machine.model.one()?;
    let program = SHOWS.of(model)?.self_test;
    let layout = args.machine.layout.choose(1);
    let kit = Kit::find()?;
    let lab = args.machine.lab(1, &layout)?.kit(kit.clone()).start()?;
    test(&lab, &kit.module, program).map_err(|error| {
        // The reader of standard output has closed it. The test has not failed.
        if error.is::<io::Error>() { error } else { anyhow!("{error:#}\n{}", lab.vm(0).kernel_log()) }
    })
}

fn test(lab: &Lab, module: &Path, program: &str) -> anyhow::Result<()> {
    let vm = lab.vm(0);
    vm.require_module(MODULE)?;
    vm.require_build(MODULE, module)?;
    for line in vm.run_as(0, program.split(' '))?.finish_text()? {
        writeln!(stdout(), "{}", plain(&line))?;
    }
    lab.check().context("after the self-test")?;
    writeln!(stdout(), "the module {} is loaded and works", module.display())?;
    Ok(())
}
