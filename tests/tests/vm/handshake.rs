//! Hosts that stop: their cards discard what arrives, and the fabric stays live (section 2.8).

use anyhow::{Result, ensure};
use hamlyn_lab::{Exit, Lab, Run};

use crate::messages::{ping_pong, transfer};
use crate::{Turn, eventually, lab_of, text};

/// Starts three machines whose cards declare their hosts dead after six seconds. The limit is not
/// lower because a host on a busy machine may be late without being dead.
fn impatient() -> Turn {
    lab_of(Lab::builder().vms(3).card_args(["--handshake", "6000"]))
}

fn count(lab: &Lab, card: usize, name: &str) -> Result<u64> {
    Ok(lab.card_counters(card)?["card"][name].as_u64().unwrap_or(0))
}

fn is_enabled(lab: &Lab, card: usize) -> Result<bool> {
    Ok(lab.card_counters(card)?["enabled"] == true)
}

/// Floods machine 1 from machine 0 and stops machine 1. The other machines must not be affected.
/// Returns the flood, which is still running.
fn flood_while<T>(lab: &Lab, stop: impl FnOnce() -> Result<T>) -> Result<Run> {
    let mut sink = lab.vm(1).run(["flood", "sink"])?;
    let ticket = text(&sink.answer()?, "ticket");
    let mut flood = lab.vm(0).run(["flood", "send", "--ticket", &ticket])?;
    flood.answer()?;
    ensure!(count(lab, 1, "handshake_lapses")? == 0, "a host that runs keeps the handshake");
    // Dropping a program kills it, and it may not have stopped the machine yet.
    let _stopping = stop()?;
    eventually(|| Ok(!is_enabled(lab, 1)?), "the card discards")?;
    ensure!(count(lab, 1, "handshake_lapses")? == 1);
    let discarded = count(lab, 1, "discarded")?;
    // The sender is not blocked, and two others communicate through the same switch.
    flood.answer()?;
    flood.answer()?;
    ping_pong(lab, 0, 2, 200)?;
    transfer(lab, 2, 0, 1 << 20)?;
    ensure!(count(lab, 1, "discarded")? > discarded);
    Ok(flood)
}

#[test]
fn card_of_a_paused_machine_discards_and_recovers() -> Result<()> {
    let lab = impatient();
    let mut flood = flood_while(&lab, || lab.vm(1).pause())?;
    flood.kill(9)?;
    ensure!(flood.wait()? == Exit::Signal(9));
    lab.vm(1).resume()?;
    eventually(|| is_enabled(&lab, 1), "its driver enables the card again")?;
    ping_pong(&lab, 0, 1, 200)?;
    let log = lab.vm(1).kernel_log();
    ensure!(log.contains("handshake"), "the driver says what happened: {log}");
    ensure!(count(&lab, 0, "handshake_lapses")? == 0 && count(&lab, 2, "handshake_lapses")? == 0);
    Ok(())
}

#[test]
fn card_of_a_panicked_kernel_discards() -> Result<()> {
    let lab = impatient();
    let mut flood = flood_while(&lab, || {
        // The machine stays as it is, like an unattended machine.
        let panic = "echo 0 > /proc/sys/kernel/panic; echo c > /proc/sysrq-trigger";
        lab.vm(1).run_as(0, ["sh", "-c", panic])
    })?;
    flood.kill(9)?;
    ensure!(flood.wait()? == Exit::Signal(9));
    // The fabric keeps a card that another machine may use.
    lab.vm(1).kill()?;
    lab.vm(1).start()?;
    eventually(|| is_enabled(&lab, 1), "the new machine's driver enables the card")?;
    ping_pong(&lab, 0, 1, 200)
}
