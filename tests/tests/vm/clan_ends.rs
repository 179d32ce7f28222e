//! CLAN cards when processes, machines, cards and links end during traffic: the peers are told and
//! continue.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::clan::{answered, aperture, clan_lab, desk, endpoint, made, nothing_is_left};
use crate::desk::Desk;
use crate::left::log_is_clean;
use crate::{eventually, text};

const LENGTH: usize = 8192;

/// A process with a window to another process's memory, and memory of its own for DMA.
struct Reader {
    desk: Desk<Run>,
    endpoint: Value,
    window: Value,
    memory: Value,
    descriptor: String,
}

impl Reader {
    fn of(lab: &Lab, vm: usize, descriptor: &str, endpoint_line: &str) -> Result<Self> {
        let mut desk = desk(lab, vm)?;
        let (endpoint, _) = endpoint(&mut desk, endpoint_line)?;
        let (memory, _) = aperture(&mut desk, LENGTH, "none")?;
        let window = made(&mut desk, &format!("window {endpoint} {descriptor}"), "window")?;
        Ok(Self { desk, endpoint, window, memory, descriptor: descriptor.to_owned() })
    }

    fn storm(&mut self) -> Result<()> {
        let line = format!("storm {} {} {}", self.endpoint, self.window, self.memory);
        self.desk.expect(&line, &json!({ "storming": true }))
    }

    fn fetch(&mut self) -> Result<Value> {
        self.desk.ask(&format!("fetch {} 0", self.window))
    }

    fn get_line(&self) -> String {
        format!("get {} {} {} 1", self.endpoint, self.memory, self.descriptor)
    }

    fn get(&mut self) -> Result<Value> {
        let line = self.get_line();
        self.desk.ask(&line)
    }

    /// Checks that a load and a DMA read both fail with the given reason.
    fn is_told(&mut self, why: &str) -> Result<()> {
        for answer in [self.fetch()?, self.get()?] {
            let error = text(&answer, "error");
            ensure!(error.contains(why), "{error}, not {why}");
        }
        let fault = self.desk.ask(&format!("fault {}", self.endpoint))?;
        ensure!(text(&fault, "fault").contains("host 1"), "{fault}");
        Ok(())
    }

    /// Waits until both a load and a DMA read succeed.
    fn reads(&mut self) -> Result<()> {
        eventually(|| Ok(self.fetch()?["value"].is_u64()), "what is there is read")?;
        let line = self.get_line();
        let got = answered(&mut self.desk, &line)?;
        ensure!(got == json!({ "done": 1 }), "{got}");
        Ok(())
    }
}

pub(crate) fn count(lab: &Lab, card: usize, name: &str) -> Result<u64> {
    lab.card_counters(card)?["card"][name].as_u64().with_context(|| format!("no counter {name}"))
}

/// Checks that each machine still reaches the other.
fn both_are_usable(lab: &Lab) -> Result<()> {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut target = desk(lab, to)?;
        let (memory, descriptor) = aperture(&mut target, LENGTH, "both")?;
        let mut reader = Reader::of(lab, from, &descriptor, "endpoint 0")?;
        reader.desk.expect(&format!("store {} 0 5", reader.window), &json!({ "stored": true }))?;
        reader.reads().with_context(|| format!("from {from} to {to}"))?;
        target.expect(&format!("own {memory} 0"), &json!({ "value": 5 }))?;
    }
    Ok(())
}

#[test]
fn process_killed_during_transfers_does_not_affect_others() -> Result<()> {
    let lab = clan_lab(2)?;
    for killed in ["storming", "stormed"] {
        let (mut target, mut other) = (desk(&lab, 1)?, desk(&lab, 1)?);
        let (memory, descriptor) = aperture(&mut target, LENGTH, "both")?;
        let (_, calm) = aperture(&mut other, LENGTH, "both")?;
        let mut bystander = Reader::of(&lab, 0, &calm, "endpoint 0")?;
        let mut storms = Vec::new();
        for by in ["endpoint 0", "endpoint-of-driver 0"] {
            let mut reader = Reader::of(&lab, 0, &descriptor, by)?;
            reader.storm()?;
            storms.push(reader);
        }
        let load = format!("own {memory} 0");
        eventually(|| Ok(target.ask(&load)?["value"].as_u64() > Some(0)), "the storm")?;
        bystander.reads()?;
        if killed == "storming" {
            storms.iter_mut().try_for_each(|storm| storm.desk.0.kill(9))?;
        } else {
            target.0.kill(9)?;
            target.0.wait()?;
            // The readers continue, and the card refuses their accesses.
            let refused = count(&lab, 1, "refused_aperture")?;
            eventually(|| Ok(count(&lab, 1, "refused_aperture")? > refused), "it is refused")?;
        }
        bystander.reads()?;
        drop((storms, bystander, target, other));
        for vm in [0, 1] {
            nothing_is_left(&lab, vm).with_context(|| format!("{killed}, machine {vm}"))?;
        }
        both_are_usable(&lab)?;
    }
    a_card_is_reset_under_a_storm(&lab)?;
    both_are_usable(&lab)?;
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

/// Resets the card of the target, and then that of the storming machine.
fn a_card_is_reset_under_a_storm(lab: &Lab) -> Result<()> {
    for vm in [1, 0] {
        let mut target = desk(lab, 1)?;
        let (memory, descriptor) = aperture(&mut target, LENGTH, "both")?;
        let mut storm = Reader::of(lab, 0, &descriptor, "endpoint 0")?;
        storm.storm()?;
        let load = format!("own {memory} 0");
        eventually(|| Ok(target.ask(&load)?["value"].as_u64() > Some(0)), "the storm")?;
        in_machine(lab, vm, "echo 1 > /sys/class/clan/clan0/device/reset")?;
        let mut again = desk(lab, vm)?;
        endpoint(&mut again, "endpoint 0").with_context(|| format!("machine {vm} after its card's reset"))?;
    }
    Ok(())
}

fn in_machine(lab: &Lab, vm: usize, line: &str) -> Result<()> {
    lab.vm(vm).run_as(0, ["sh", "-c", line])?.finish_text()?;
    Ok(())
}

#[test]
fn reads_fail_and_recover_when_the_peer_stops() -> Result<()> {
    let lab = clan_lab(3)?;
    let (mut peer, mut other) = (desk(&lab, 1)?, desk(&lab, 2)?);
    let (_, descriptor) = aperture(&mut peer, LENGTH, "both")?;
    let (_, calm) = aperture(&mut other, LENGTH, "both")?;
    let mut bystander = Reader::of(&lab, 0, &calm, "endpoint 0")?;
    let mut reader = Reader::of(&lab, 0, &descriptor, "endpoint 0")?;
    reader.reads()?;
    let users = Users::of(&lab)?;
    // The card stops with all its state, and continues.
    let failed = count(&lab, 0, "reads_failed")?;
    let held = lab.hold_card(1)?;
    reader.is_told("not answered")?;
    ensure!(count(&lab, 0, "reads_failed")? > failed);
    bystander.reads()?;
    users.leave_messages_to_each_other()?;
    drop(held);
    reader.reads()?;
    // The processors stop. The card still answers reads, until the handshake lapses.
    lab.vm(1).pause()?;
    reader.fetch()?;
    bystander.reads()?;
    lab.vm(1).resume()?;
    reader.reads()?;
    // The card is removed from its machine and plugged in again. Its old apertures are gone.
    drop(peer);
    in_machine(&lab, 1, "echo 1 > /sys/class/clan/clan0/device/remove")?;
    eventually(|| Ok(reader.fetch()?["error"].is_string()), "the reader gets an error")?;
    bystander.reads()?;
    in_machine(&lab, 1, "echo 1 > /sys/bus/pci/rescan")?;
    let refused = |answer: Value| answer["error"].as_str().is_some_and(|text| text.contains("refused"));
    eventually(|| Ok(refused(reader.fetch()?)), "the card that is back refuses")?;
    reader.is_told("refuse")?;
    drop(reader);
    both_are_usable(&lab)?;
    // The machine dies, and then the switch.
    let mut peer = desk(&lab, 1)?;
    let (_, descriptor) = aperture(&mut peer, LENGTH, "both")?;
    let mut reader = Reader::of(&lab, 0, &descriptor, "endpoint 0")?;
    reader.reads()?;
    lab.vm(1).kill()?;
    eventually(|| Ok(reader.fetch()?["error"].is_string()), "its card has lost the machine")?;
    ensure!(reader.get()?["error"].is_string());
    bystander.reads()?;
    lab.kill_switch();
    for reader in [&mut reader, &mut bystander] {
        ensure!(text(&reader.fetch()?, "error").contains("there is no link"));
    }
    lab.restart_switch()?;
    bystander.reads()?;
    drop((reader, bystander, other));
    for vm in [0, 2] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

/// Two users of the first machine, each with an endpoint. They are created before a card is
/// stopped, because its machine waits for it only for a limited time.
struct Users([(Desk<Run>, Value); 2]);

impl Users {
    fn of(lab: &Lab) -> Result<Self> {
        let user = |uid| {
            let mut desk = Desk(lab.vm(0).run_as(uid, ["clan-driver", "desk"])?);
            let (from, _) = endpoint(&mut desk, "endpoint 0")?;
            anyhow::Ok((desk, from))
        };
        Ok(Self([user(1001)?, user(1002)?]))
    }

    /// Checks that one user cannot fill the whole send queue to a host that receives nothing.
    fn leave_messages_to_each_other(self) -> Result<()> {
        let [(mut greedy, from), (mut second, other)] = self.0;
        let sent = greedy.ask(&format!("send-many {from} 1:2000"))?;
        ensure!(sent["sent"].as_u64().is_some_and(|sent| (100..200).contains(&sent)), "{sent}");
        second.expect(&format!("send {other} 1:2000 mine"), &json!({ "sent": true }))
    }
}
