//! `hamlyn driver-test --watch`: the module again and again, in a machine that stays.

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Lab, MODULE};

use super::{Test, WithTest};
use crate::commands::cp;
use crate::commands::lab::stay::stop_by_signals;

/// Time between two looks at the module's file.
const LOOK: Duration = Duration::from_millis(200);
/// The module's file in the machine.
const FILE: &str = "/tmp/hamlyn.ko";

/// Tests the module now and whenever its file has changed, until a signal ends this. After a
/// failure the next test has a fresh machine.
pub(super) fn run(
    module: &Path,
    programs: &[&str],
    start: &dyn Fn() -> anyhow::Result<Lab>,
    with: &WithTest<'_>,
) -> anyhow::Result<()> {
    let stop = stop_by_signals()?;
    let (mut lab, mut tested) = (None, None);
    while !stop.load(Ordering::Relaxed) {
        let version = version(module)?;
        if tested == Some(version) {
            sleep(LOOK);
            continue;
        }
        tested = Some(version);
        let machine = match lab.take() {
            Some(lab) => lab,
            None => {
                let mut lab = start()?;
                // The module is copied in by it, and the user can look around.
                lab.open_door()?;
                lab
            }
        };
        let begun = Instant::now();
        let result = with(&machine, &mut |test| reload(test, module, programs));
        let seconds = begun.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                writeln!(stdout(), "WORKS ({seconds:.1} s); waiting for the next change")?;
                lab = Some(machine);
            }
            Err(error) if error.is::<std::io::Error>() => return Err(error),
            Err(error) => {
                writeln!(stdout(), "FAILS ({seconds:.1} s): {}", plain(&format!("{error:#}")))?;
                writeln!(stdout(), "{}", machine.vm(0).kernel_log())?;
            }
        }
    }
    Ok(())
}

/// Returns what differs between two versions of a file.
fn version(module: &Path) -> anyhow::Result<(SystemTime, u64)> {
    let found = fs::metadata(module).with_context(|| format!("cannot look at {}", module.display()))?;
    Ok((found.modified()?, found.len()))
}

/// Replaces the loaded module by this file, and runs the programs.
fn reload(test: &Test<'_>, module: &Path, programs: &[&str]) -> anyhow::Result<()> {
    // What was logged at the boot, if any.
    test.guest.ask("dmesg -c >/dev/null")?;
    cp::place(module, test.lab.directory(), test.guest.vm.name(), FILE, None)?;
    if test.is_loaded()? {
        test.step("unload the module", || test.guest.run(&["rmmod", MODULE]))?;
    }
    test.step("load the module", || test.load(FILE))?;
    test.runs(programs, "after the change")?;
    test.lab.check().context("after the programs")
}
