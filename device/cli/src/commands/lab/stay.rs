//! A lab that stays until a signal comes, or until all its machines are off.

use std::collections::BTreeSet;
use std::io::{self, Write, sink, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::Context;
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Lab, Vm};

use super::file::Description;
use crate::commands::demo::stage::Stage;
use crate::commands::layout::Layout;
use crate::commands::tell;

/// A switch that ends within this time of its last restart is not restarted.
const SOON: Duration = Duration::from_secs(10);

/// Returns a flag that a signal sets which asks this process to end.
pub(in super::super) fn stop_by_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, stop.clone()).context("cannot catch signals")?;
    }
    Ok(stop)
}

/// Sets the flag once standard input is closed.
pub(in super::super) fn stop_by_eof(stop: Arc<AtomicBool>) {
    // This thread ends with the process: a reader of a terminal cannot be woken otherwise.
    thread::spawn(move || {
        // An input that cannot be read has ended as well.
        let _ = io::copy(&mut stdin(), &mut sink());
        stop.store(true, Ordering::Relaxed);
    });
}

/// Starts a lab in a step with this title, for other commands to use.
pub(in super::super) fn start(
    stage: &Stage,
    title: &str,
    description: &Description,
    layout: &Layout,
) -> anyhow::Result<Lab> {
    let mut lab = stage.step(title, |tell| {
        let builder = description.builder(layout, &tell)?;
        builder.reboots(true).progress(tell).start()
    })?;
    stage.note(&layout.to_string());
    stage.note_each(lab.stores());
    lab.open_door()?;
    Ok(lab)
}

/// Waits until all machines are off or `stop` is set. Returns the number of machines that failed,
/// or whose card did; the others continue. Restarts a switch that has its own process. Fails if any
/// other switch fails.
pub(in super::super) fn watch(lab: &Lab, layout: &Layout, stop: &AtomicBool) -> anyhow::Result<usize> {
    let mut started: Option<Instant> = None;
    let mut failed = BTreeSet::new();
    let mut fail = |index: usize, name: &str, error: anyhow::Error| {
        if failed.insert(index) {
            tell(&plain(&format!("{name} has failed, the other machines go on: {error:#}")));
        }
    };
    let mut machines: Vec<(usize, &Vm)> = lab.vms().iter().enumerate().collect();
    while !stop.load(Ordering::Relaxed) && !machines.is_empty() {
        if let Err(error) = lab.check_switch() {
            if *layout != Layout::Isolated || started.is_some_and(|started| started.elapsed() < SOON) {
                return Err(error);
            }
            tell(&plain(&format!("the switch has failed and is restarted: {error:#}")));
            lab.restart_switch()?;
            started = Some(Instant::now());
        }
        machines.retain(|&(index, vm)| {
            let goes_on = lab.check_card(index).and_then(|()| vm.check());
            match goes_on {
                Ok(true) => return true,
                Ok(false) => tell(&format!("{} is off", vm.name())),
                Err(error) => fail(index, vm.name(), error),
            }
            false
        });
        sleep(Duration::from_millis(200));
    }
    Ok(failed.len())
}

/// Writes how other terminals reach the machines.
pub(in super::super) fn write_ways_in(out: &mut impl Write, lab: &Lab) -> io::Result<()> {
    writeln!(out, "\nIn other terminals:")?;
    for vm in lab.vms() {
        writeln!(out, "  hamlyn console {:6}  a shell in {} (Ctrl-] leaves it)", vm.name(), vm.name())?;
    }
    let first = lab.vms().first().map_or("vm0", |vm| vm.name());
    writeln!(
        out,
        "  hamlyn exec {first} -- COMMAND  runs a program there; hamlyn cp FILE {first}: brings it"
    )?;
    writeln!(out, "  hamlyn stat --watch    what cards and switch are doing")
}

/// Writes where the lab's files are, and how it ends.
pub(in super::super) fn write_ways_out(out: &mut impl Write, lab: &Lab) -> io::Result<()> {
    writeln!(out, "\nSockets and logs: {}", lab.directory().display())?;
    writeln!(out, "Ctrl-C here ends everything; so does poweroff in every machine.")
}
