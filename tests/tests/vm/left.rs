//! What a test must leave behind in a machine: nothing that a process holds, and a kernel log
//! without complaints.

use anyhow::{Result, ensure};
use hamlyn_lab::{COMPLAINTS, Lab, without_foreign_races};

use crate::eventually;
use crate::turn::KERNEL_LOG;

/// Words of a driver that has not got what it needs for itself, or cannot take it back.
const OF_DRIVERS: [&str; 3] = ["is not closed", "cannot be had", "no connections"];

/// Waits until a machine's driver of a model holds no objects of processes.
pub(crate) fn nothing_is_held(lab: &Lab, vm: usize, model: &str) -> Result<()> {
    let list = format!("/sys/class/{model}/{model}0/holders");
    let holders = || lab.vm(vm).run_as(0, ["sed", "1d", &list])?.finish_text();
    eventually(|| Ok(holders()?.is_empty()), "no process holds anything")
}

/// Checks that the kernel of a machine has no complaints, and its drivers neither.
pub(crate) fn log_is_clean(lab: &Lab, vm: usize) -> Result<()> {
    log_has_none(lab, vm, &OF_DRIVERS)
}

/// The same where processes that have too much memory are killed: the kernel reports each with a
/// call trace.
pub(crate) fn log_is_clean_but_for_kills(lab: &Lab, vm: usize) -> Result<()> {
    let others = "awk '/invoked oom-killer/ { skip = 1 } !skip; /Killed process/ { skip = 0 }'";
    log_of_has_none(lab, vm, &format!("{KERNEL_LOG} | {others}"), &OF_DRIVERS)
}

/// Checks that the kernel of a machine has no complaints, and that none of these words is in its
/// log.
pub(crate) fn log_has_none(lab: &Lab, vm: usize, words: &[&str]) -> Result<()> {
    log_of_has_none(lab, vm, KERNEL_LOG, words)
}

fn log_of_has_none(lab: &Lab, vm: usize, command: &str, words: &[&str]) -> Result<()> {
    let log = without_foreign_races(lab.vm(vm).run_as(0, ["sh", "-c", command])?.finish_text()?);
    let is_bad = |line: &String| COMPLAINTS.iter().chain(words).any(|word| line.contains(word));
    let first = log.iter().position(is_bad);
    ensure!(first.is_none(), "vm{vm}: {}", log[first.unwrap_or(0).saturating_sub(3)..].join("\n"));
    Ok(())
}
