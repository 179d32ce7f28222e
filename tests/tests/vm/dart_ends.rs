//! DART cards when processes, machines, cards and links end while messages wait for pages that come
//! and go: the peers are told and continue.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, SWAP};
use serde_json::json;

use crate::dart::{End, dart_lab, nothing_is_left, pair};
use crate::eventually;
use crate::left::log_is_clean;
use crate::shrimp_paging::shell;

/// Size of an endpoint in bytes. It holds the storm's target, and the destination of its reads.
const LENGTH: usize = 1 << 19;

/// Starts a storm of messages from the first machine. At the other end, a process continuously
/// offers the pages to the kernel for eviction.
fn storm(lab: &Lab, one: usize, other: usize) -> Result<(End, End)> {
    let (mut storming, mut stormed) = pair(lab, one, other, LENGTH)?;
    stormed.desk.begin(&format!("churn {} 600000", stormed.endpoint))?;
    storming.desk.expect(&format!("storm {}", storming.connection), &json!({ "storming": true }))?;
    // Some of the traffic passes.
    std::thread::sleep(std::time::Duration::from_millis(500));
    Ok((storming, stormed))
}

/// Checks that the storm has ended with the given error.
fn is_told(storming: &mut End, why: &str) -> Result<()> {
    let answer = storming.desk.answer()?;
    let error = answer["error"].as_str().with_context(|| answer.to_string())?;
    ensure!(error.contains(why), "{error}, not {why}");
    Ok(())
}

fn both_are_usable(lab: &Lab) -> Result<()> {
    let (mut one, mut two) = pair(lab, 0, 1, LENGTH)?;
    one.settle()?;
    two.settle()
}

#[test]
fn kill_during_page_waits_does_not_affect_others() -> Result<()> {
    let lab = dart_lab(2)?;
    for vm in [0, 1] {
        shell(&lab, vm, SWAP)?;
    }
    let (mut calm, mut other) = pair(&lab, 0, 1, 4096)?;
    for round in 0..2 {
        let (mut storming, mut stormed) = storm(&lab, 0, 1)?;
        calm.settle()?;
        if round == 0 {
            stormed.desk.0.kill(9)?;
            is_told(&mut storming, "or its host is lost")?;
        } else {
            storming.desk.0.kill(9)?;
            stormed.desk.0.kill(9)?;
        }
        calm.settle()?;
        other.settle()?;
    }
    drop((calm, other));
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
    }
    // Resets the target's card, and then the sender's.
    for vm in [1, 0] {
        let (mut storming, stormed) = storm(&lab, 0, 1)?;
        shell(&lab, vm, "echo 1 > /sys/class/dart/dart0/device/reset")?;
        if vm == 1 {
            is_told(&mut storming, "or its host is lost")?;
        }
        drop((storming, stormed));
        both_are_usable(&lab).with_context(|| format!("after a reset of card {vm}"))?;
    }
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn sender_fails_when_the_target_machine_disappears() -> Result<()> {
    let lab = dart_lab(3)?;
    let (mut calm, mut other) = pair(&lab, 0, 2, 4096)?;
    // The card is removed from its machine, and comes back.
    let (mut storming, stormed) = storm(&lab, 0, 1)?;
    shell(&lab, 1, "echo 1 > /sys/class/dart/dart0/device/remove")?;
    is_told(&mut storming, "broken")?;
    calm.settle()?;
    drop((storming, stormed));
    shell(&lab, 1, "echo 1 > /sys/bus/pci/rescan")?;
    both_are_usable(&lab)?;
    // The machine dies.
    let (mut storming, stormed) = storm(&lab, 0, 1)?;
    lab.vm(1).kill()?;
    is_told(&mut storming, "broken")?;
    calm.settle()?;
    other.settle()?;
    drop((storming, stormed));
    // The switch dies. All connections are broken, and new ones can be made.
    lab.kill_switch();
    calm.desk.expect(&format!("broken {}", calm.connection), &json!({ "broken": "Link" }))?;
    lab.restart_switch()?;
    for end in [&mut calm, &mut other] {
        eventually(|| Ok(end.desk.ask("info")?["host"].is_u64()), "there is a link again")?;
    }
    drop((calm, other));
    let (mut one, mut two) = pair(&lab, 0, 2, 4096)?;
    one.settle()?;
    two.settle()?;
    drop((one, two));
    for vm in [0, 2] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}
