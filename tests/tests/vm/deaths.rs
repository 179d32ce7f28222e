//! Processes and machines that die during traffic: the others continue, and nothing is left behind.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hamlyn_lab::{Exit, Lab, Run};

use hamlyn_tests::eventually::PATIENCE;

use crate::messages::{all_to_all, ping_pong, transfer};
use crate::{lab, lab_of, shared, text};

/// Starts a watcher on one machine and a flood to it from another. Returns when the flood is under
/// way.
fn flood(lab: &Lab, from: usize, to: usize) -> Result<(Run, Run)> {
    let mut watch = lab.vm(to).run(["flood", "sink"])?;
    let ticket = text(&watch.answer()?, "ticket");
    let mut flood = lab.vm(from).run(["flood", "send", "--ticket", &ticket])?;
    for _ in 0..2 {
        flood.answer()?;
    }
    Ok((watch, flood))
}

/// Waits until a counter of a card stops changing.
fn until_still(lab: &Lab, card: usize, name: &str) -> Result<()> {
    let patience = Instant::now() + PATIENCE;
    let mut last = lab.card_counters(card)?["card"][name].clone();
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = lab.card_counters(card)?["card"][name].clone();
        if now == last {
            return Ok(());
        }
        ensure!(Instant::now() < patience, "{name} of card {card} still moves: {now}");
        last = now;
    }
}

/// Checks that a machine's driver holds no object of a dead process, by creating the maximum number
/// of objects again.
fn nothing_is_left(lab: &Lab, vm: usize) -> Result<()> {
    lab.vm(vm).run_as(0, ["rmmod", "hamlyn"])?.finish_text()?;
    lab.vm(vm).run_as(0, ["insmod", "/lib/hamlyn.ko"])?.finish_text()?;
    lab.vm(vm).run_as(0, ["self-test"])?.finish()?;
    Ok(())
}

#[test]
fn receiver_killed_under_load_does_not_affect_others() -> Result<()> {
    let lab = shared();
    let (mut receiver, mut sender) = flood(&lab, 0, 1)?;
    receiver.kill(9)?;
    assert_eq!(receiver.wait()?, Exit::Signal(9));
    // Its slot is closed. Packets that still arrive are refused, and its pages may belong to
    // another process.
    sender.answer()?;
    let refused = lab.refused(1)?;
    ping_pong(&lab, 1, 0, 200)?;
    assert!(lab.refused(1)? >= refused);
    sender.kill(9)?;
    assert_eq!(sender.wait()?, Exit::Signal(9));
    until_still(&lab, 0, "packets_sent")?;
    transfer(&lab, 0, 1, 1 << 20)?;
    nothing_is_left(&lab, 0)?;
    nothing_is_left(&lab, 1)?;
    ping_pong(&lab, 0, 1, 200)
}

#[test]
fn machine_killed_under_load_does_not_affect_others() -> Result<()> {
    let lab = lab(3);
    // Machine 1 both receives and sends when it dies.
    let (_watch, mut sender) = flood(&lab, 0, 1)?;
    let (mut receiver, _flood) = flood(&lab, 1, 2)?;
    lab.vm(1).kill()?;
    // The other machines continue, with each other and with the traffic they were part of.
    ping_pong(&lab, 0, 2, 200)?;
    sender.answer()?;
    sender.kill(9)?;
    sender.wait()?;
    receiver.kill(9)?;
    receiver.wait()?;
    transfer(&lab, 2, 0, 1 << 20)?;
    // Its card accepts another machine.
    lab.vm(1).start()?;
    all_to_all(&lab, &[0, 1, 2])
}

/// QEMU waits for the answer to an access, such as the driver's heartbeat, until its time-out.
/// Meanwhile its processors are stopped for longer than the guest's kernel tolerates.
#[test]
fn machine_recovers_when_its_stopped_card_continues() -> Result<()> {
    let lab = lab_of(Lab::builder().vms(2));
    let held = lab.hold_card(0)?;
    std::thread::sleep(Duration::from_secs(25));
    drop(held);
    lab.vm(0).run_as(0, ["self-test"])?.finish()?;
    ping_pong(&lab, 0, 1, 20)?;
    ping_pong(&lab, 1, 0, 20)
}
