//! Every mode with three and with six machines, and on a fabric that reorders packets (section
//! 6.1).

use anyhow::{Result, ensure};
use hamlyn_lab::{Lab, cores};

use crate::fetch::count_together;
use crate::flow::backlog;
use crate::groups::{barrier, gather};
use crate::mailbox::suspicious_clients;
use crate::messages::{all_to_all, ping_pong, transfer};
use crate::{lab_of, shared_reordering, shared_three};

/// Returns how many packets have been overtaken on the switch's paths.
fn overtaken(lab: &Lab) -> Result<u64> {
    let counters = lab.switch_counters()?;
    let ports = counters["ports"].as_object().into_iter().flatten();
    Ok(ports.filter_map(|(_, port)| port["overtaken"].as_u64()).sum())
}

#[test]
fn three_machines_use_every_mode() -> Result<()> {
    let lab = shared_three();
    for one_shot in [false, true] {
        suspicious_clients(&lab, 0, &[1, 2], one_shot)?;
        gather(&lab, 1, &[0, 2, 2], one_shot)?;
    }
    barrier(&lab, &[0, 1, 2], 200)?;
    count_together(&lab, 2, &[0, 1, 2])?;
    ensure!(overtaken(&lab)? == 0, "one path keeps the order");
    Ok(())
}

#[test]
fn six_machines_use_every_mode_with_reordering() -> Result<()> {
    let lab = lab_of(Lab::builder().vms(6).switch_args(["--paths", "4"]));
    suspicious_clients(&lab, 0, &[1, 2, 3, 4, 5], true)?;
    gather(&lab, 5, &[0, 1, 2, 3, 4], true)?;
    barrier(&lab, &[0, 1, 2, 3, 4, 5], 50)?;
    count_together(&lab, 3, &[0, 1, 2, 4, 5])?;
    all_to_all(&lab, &[0, 1, 2, 3, 4, 5])?;
    ensure!(overtaken(&lab)? > 0);
    Ok(())
}

#[test]
fn everything_works_on_a_fabric_that_reorders() -> Result<()> {
    let lab = shared_reordering();
    ping_pong(&lab, 0, 1, 500)?;
    for (from, to) in [(0, 1), (1, 0)] {
        transfer(&lab, from, to, 4 << 20)?;
        backlog(&lab, from, to)?;
    }
    suspicious_clients(&lab, 0, &[1, 1], true)?;
    gather(&lab, 0, &[1, 1], false)?;
    barrier(&lab, &[0, 1], 100)?;
    ensure!(overtaken(&lab)? > 0, "the packets did overtake each other");
    for card in 0..2 {
        let counters = lab.card_counters(card)?["card"].clone();
        ensure!(counters["refused_packet"] == 0 && counters["refused_length"] == 0, "{counters}");
    }
    Ok(())
}

#[test]
fn cards_and_switch_work_in_one_process() -> Result<()> {
    everything_works_in_one_process(&lab_of(Lab::builder().vms(2).one_process(true)))
}

#[test]
fn cards_work_with_a_pinned_thread_per_machine() -> Result<()> {
    // On a busy host these machines are slow, because they yield to all other processes there.
    let patient = Lab::builder().vms(2).card_args(["--handshake", "0"]);
    everything_works_in_one_process(&lab_of(patient.one_process(true).cores(cores(2))))
}

fn everything_works_in_one_process(lab: &Lab) -> Result<()> {
    ping_pong(lab, 0, 1, 500)?;
    transfer(lab, 1, 0, 4 << 20)?;
    backlog(lab, 0, 1)?;
    suspicious_clients(lab, 0, &[1, 1], true)?;
    gather(lab, 0, &[1, 0], false)?;
    barrier(lab, &[0, 1, 1], 100)?;
    count_together(lab, 1, &[0, 0])?;
    // One machine dies. The process and the other machine's card continue.
    lab.vm(1).kill()?;
    transfer(lab, 0, 0, 1 << 20)?;
    lab.vm(1).start()?;
    ping_pong(lab, 0, 1, 100)
}
