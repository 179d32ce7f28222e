//! Hosts that stop: their cards discard what arrives, and the fabric stays live (section 2.8).

use anyhow::{Result, ensure};
use hamlyn_lab::{Exit, Lab, Run};

use crate::messages::{ping_pong, transfer};
use crate::{Turn, eventually, lab_of, text};

/// Three machines whose cards miss their hosts after six seconds: late on a busy host is not dead.
fn impatient() -> Turn {
    lab_of(Lab::builder().vms(3).card_args(["--handshake", "6000"]))
}

fn count(lab: &Lab, card: usize, name: &str) -> Result<u64> {
    Ok(lab.card_counters(card)?["card"][name].as_u64().unwrap_or(0))
}

fn is_enabled(lab: &Lab, card: usize) -> Result<bool> {
    Ok(lab.card_counters(card)?["enabled"] == true)
}

/// Machine 0 floods machine 1, which stops; the others must not notice. Returns the flood, still
/// under way.
fn flood_while<T>(lab: &Lab, stop: impl FnOnce() -> Result<T>) -> Result<Run> {
    let mut sink = lab.vm(1).run(["flood", "sink"])?;
    let ticket = text(&sink.answer()?, "ticket");
    let mut flood = lab.vm(0).run(["flood", "send", "--ticket", &ticket])?;
    flood.answer()?;
    ensure!(count(lab, 1, "handshake_lapses")? == 0, "a host that runs keeps the handshake");
    // A program that is let go of is killed, and it may not have stopped the machine yet.
    let _stopping = stop()?;
    eventually(|| Ok(!is_enabled(lab, 1)?), "the card discards")?;
    ensure!(count(lab, 1, "handshake_lapses")? == 1);
    let discarded = count(lab, 1, "discarded")?;
    // The sender is not held up, and two others talk through the same switch.
    flood.answer()?;
    flood.answer()?;
    ping_pong(lab, 0, 2, 200)?;
    transfer(lab, 2, 0, 1 << 20)?;
    ensure!(count(lab, 1, "discarded")? > discarded);
    Ok(flood)
}

#[test]
fn a_machine_that_is_paused_turns_its_card_to_discarding_and_comes_back() -> Result<()> {
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
fn a_kernel_that_panics_turns_its_card_to_discarding() -> Result<()> {
    let lab = impatient();
    let mut flood = flood_while(&lab, || {
        // It stays as it is, as a machine with nobody near it does.
        let panic = "echo 0 > /proc/sys/kernel/panic; echo c > /proc/sysrq-trigger";
        lab.vm(1).run_as(0, ["sh", "-c", panic])
    })?;
    flood.kill(9)?;
    ensure!(flood.wait()? == Exit::Signal(9));
    // What the fabric has of it is a card that another machine may take.
    lab.vm(1).kill()?;
    lab.vm(1).start()?;
    eventually(|| is_enabled(&lab, 1), "the new machine's driver enables the card")?;
    ping_pong(&lab, 0, 1, 200)
}
