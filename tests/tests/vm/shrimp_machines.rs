//! SHRIMP cards with many machines, with two processors, and with mappings that come and go under
//! traffic.

use std::path::Path;

use anyhow::{Result, ensure};
use hamlyn_host::catalogue;
use hamlyn_lab::{Accel, Builder, Kit, Lab, Memory, SELDOM_PROBES, Snoop};
use serde_json::json;

use crate::shrimp::{
    arrives, both_are_usable, counter, desk, export, map, nothing_is_left, sees_stores, shrimp_lab,
};
use crate::shrimp_paging::shell;
use crate::{eventually, lab_of, shared_of, text};

const VMS: usize = 4;

fn builder(vms: usize) -> Result<Builder> {
    Ok(Lab::builder().models(&[catalogue::find("shrimp")?]).vms(vms))
}

/// Four machines in a mesh of two by two store to each other, all at once and in each mode. Then
/// one of them dies.
#[test]
fn four_machines_exchange_stores_and_survive_one_death() -> Result<()> {
    let lab = lab_of(builder(VMS)?.card_args(["--columns", "2"]).switch_args(["--mesh", "2x2"]));
    let mut desks = (0..VMS).map(|vm| desk(&lab, vm)).collect::<Result<Vec<_>>>()?;
    let mut exports = Vec::new();
    for desk in &mut desks {
        let made = desk.ask("export 65536 0 1 2 3")?;
        exports.push((made["export"].clone(), text(&made, "handle")));
    }
    // Each sender has its own quarter of a host's buffer, so no sender overwrites another.
    let mut mappings = Vec::new();
    for from in 0..VMS {
        for to in (0..VMS).filter(|to| *to != from) {
            let mode = ["single", "blocked", "deliberate"][(from + to) % 3];
            let place = format!("{} 16384", from * 16_384);
            mappings.push((from, to, mode, map(&mut desks[from], &exports[to].1, &place, mode)?));
        }
    }
    for round in 1..4 {
        let seed = |from: usize, to: usize| round * 100 + from * 10 + to;
        for stage in ["fill", "send"] {
            for (from, to, mode, mapping) in &mappings {
                let line = match (stage, *mode) {
                    ("fill", _) => format!("fill {mapping} 0 16384 {}", seed(*from, *to)),
                    (_, "deliberate") => format!("send {mapping} 0 16384"),
                    _ => continue,
                };
                // Each machine runs several commands in sequence, and the machines run in parallel.
                desks[*from].begin(&line)?;
            }
            for (from, _, mode, _) in &mappings {
                if stage == "fill" || *mode == "deliberate" {
                    let answer = desks[*from].answer()?;
                    ensure!(answer.get("error").is_none(), "{answer}");
                }
            }
        }
        for (from, to, ..) in &mappings {
            let check = format!("check {} {} 16384 {}", exports[*to].0, from * 16_384, seed(*from, *to));
            eventually(|| Ok(desks[*to].ask(&check)?["arrived"] == true), &format!("from {from} to {to}"))?;
        }
    }
    let links = lab.switch_counters()?;
    ensure!(links.to_string().contains("flits"), "the packets came through a mesh: {links}");
    lab.vm(3).kill()?;
    for (from, to, _, mapping) in mappings.iter().filter(|(from, ..)| *from != 3) {
        let state = format!("state {mapping}");
        let wanted = json!({ "state": if *to == 3 { "lost" } else { "mapped" } });
        eventually(|| Ok(desks[*from].ask(&state)? == wanted), &format!("from {from} to {to}: {wanted}"))?;
        if *to != 3 {
            desks[*from].expect(&format!("mode {mapping} single"), &json!({ "mode": "single" }))?;
            desks[*from].expect(&format!("store {mapping} 4 {}", from + 77), &json!({ "stored": true }))?;
            arrives(&mut desks[*to], &exports[*to].0, from * 16_384 + 4, *from as u32 + 77)?;
        }
    }
    drop(desks);
    for vm in 0..3 {
        nothing_is_left(&lab, vm)?;
    }
    both_are_usable(&lab)
}

/// Two processes on two processors start transfers by CMPXCHG as fast as they can, at once and in
/// turn. The card must start exactly as many as succeeded. The value that a failed compare writes
/// back starts none.
#[test]
fn concurrent_processors_start_only_the_intended_transfers() -> Result<()> {
    // With one thread, as a snooped machine is emulated, and with two. A machine under KVM cannot
    // be snooped.
    let is_emulated = Kit::find()?.host.accel != Some(Accel::Kvm);
    for snoop in [Snoop::Yes, Snoop::No].into_iter().filter(|snoop| is_emulated || *snoop == Snoop::No) {
        let two = |_: usize, _: &Path| ["-smp", "2"].map(str::to_owned).to_vec();
        // Packets of a sixteenth of a page make a transfer slow.
        let lab = lab_of(builder(2)?.snoop(snoop).qemu_args(two).card_args(["--update-size", "256"]));
        [0, 1].into_iter().try_for_each(|vm| shell(&lab, vm, SELDOM_PROBES).map(drop))?;
        let _seen = (snoop == Snoop::Yes).then(|| sees_stores(&lab, 1)).transpose()?;
        let sees = desk(&lab, 1)?.ask("info")?["snoops"] == true;
        ensure!(sees == (snoop == Snoop::Yes), "{snoop:?}: stores are seen: {sees}");
        let mut receiver = desk(&lab, 0)?;
        let mut senders = Vec::new();
        for processor in 0..2 {
            let (buffer, handle) = export(&mut receiver, 16_384)?;
            let words = ["taskset", "-c", &processor.to_string(), "shrimp", "desk"].map(str::to_owned);
            let mut sender = crate::desk::Desk(lab.vm(1).run(words)?);
            let mapping = map(&mut sender, &handle, "0 16384", "deliberate")?;
            sender.expect(&format!("fill {mapping} 0 16384 {processor}"), &json!({ "filled": 16_384 }))?;
            senders.push((sender, mapping, buffer));
        }
        let before = counter(&lab, 1, "transfers_started")?;
        for (sender, mapping, _) in &mut senders {
            sender.begin(&format!("batter {mapping} 400"))?;
        }
        let mut started = 0;
        for (sender, ..) in &mut senders {
            let answer = sender.answer()?;
            started += answer["started"].as_u64().unwrap_or_else(|| panic!("{answer}"));
        }
        // The kernel's own messages also use deliberate update.
        let own = || -> Result<u64> { Ok(counter(&lab, 1, "transfers_started")? - before - started) };
        ensure!(started == 2 * 400 * 4 && own()? < 40, "{started} started, and {} besides", own()?);
        ensure!(counter(&lab, 1, "transfers_refused")? == 0);
        for (processor, (.., buffer)) in senders.iter().enumerate() {
            let check = format!("check {buffer} 0 16384 {processor}");
            eventually(|| Ok(receiver.ask(&check)?["arrived"] == true), "what was sent arrives")?;
        }
        println!("{snoop:?}: {} written back", counter(&lab, 1, "writes_back")?);
    }
    Ok(())
}

/// A card behind an IOMMU uses other addresses than the processor's stores. Memory cannot be
/// exported then, and the error names the reason.
#[test]
fn memory_behind_an_iommu_is_not_exported() -> Result<()> {
    let iommu = |_: usize, _: &Path| ["-device", "intel-iommu,caching-mode=on"].map(str::to_owned).to_vec();
    let lab = builder(1)?.qemu_args(iommu).kernel_args("intel_iommu=on iommu.strict=1");
    let lab = lab_of(lab);
    let group = shell(&lab, 0, "ls -d /sys/class/shrimp/shrimp0/device/iommu_group/")?;
    ensure!(group.contains("iommu_group"), "the card is not behind an IOMMU: {group}");
    desk(&lab, 0)?.fails("export 8192 0", "as behind an IOMMU")?;
    nothing_is_left(&lab, 0)
}

/// Mappings and exports are created and ended repeatedly while other processes store as fast as
/// they can. Stores to an ended mapping change nothing, although its memory is reused for the next.
#[test]
fn remapped_memory_gets_no_stores_of_old_mappings() -> Result<()> {
    let lab = shared_of("shrimp")?;
    let (mut receiver, mut sender) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (calm, calm_handle) = export(&mut receiver, 4096)?;
    let steady = map(&mut sender, &calm_handle, "0 4096", "single")?;
    for round in 1..=8 {
        // One process floods a buffer. The buffer is revoked meanwhile and exported again, in the
        // same memory.
        let (buffer, handle) = export(&mut receiver, 8192)?;
        let mut flooder = desk(&lab, 1)?;
        let flooding = map(&mut flooder, &handle, "0 8192", "single")?;
        flooder.expect(&format!("flood {flooding}"), &json!({ "flooding": true }))?;
        eventually(|| Ok(receiver.ask(&format!("load {buffer} 0"))? != json!({ "value": 0 })), "the flood")?;
        receiver.expect(&format!("unexport {buffer}"), &json!({ "unexported": true }))?;
        let (anew, anew_handle) = export(&mut receiver, 8192)?;
        let mapping = map(&mut sender, &anew_handle, "0 8192", "single")?;
        sender.expect(&format!("store {mapping} 4 {round}"), &json!({ "stored": true }))?;
        arrives(&mut receiver, &anew, 4, round)?;
        for _ in 0..20 {
            receiver.expect(&format!("load {anew} 0"), &json!({ "value": 0 }))?;
        }
        // A mapping is ended and made to another place. Stores go there, and none to the first
        // place.
        sender.expect(&format!("unmap {mapping}"), &json!({ "unmapped": true }))?;
        let moved = map(&mut sender, &anew_handle, "4096 4096", "single")?;
        sender.expect(&format!("store {moved} 4 {}", 50 + round), &json!({ "stored": true }))?;
        arrives(&mut receiver, &anew, 4100, 50 + round)?;
        receiver.expect(&format!("load {anew} 4"), &json!({ "value": round }))?;
        // An unrelated mapping still works.
        sender.expect(&format!("store {steady} 8 {round}"), &json!({ "stored": true }))?;
        arrives(&mut receiver, &calm, 8, round)?;
        sender.expect(&format!("unmap {moved}"), &json!({ "unmapped": true }))?;
        receiver.expect(&format!("unexport {anew}"), &json!({ "unexported": true }))?;
        flooder.0.kill(9)?;
        flooder.0.wait()?;
    }
    both_are_usable(&lab)
}

#[test]
fn driver_unbinds_while_a_process_has_a_mapping() -> Result<()> {
    let lab = shrimp_lab(2)?;
    let (mut receiver, mut sender) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (_, handle) = export(&mut receiver, 8192)?;
    let mapping = map(&mut sender, &handle, "0 8192", "single")?;
    sender.expect(&format!("store {mapping} 0 5"), &json!({ "stored": true }))?;
    let driver =
        "device=$(basename $(readlink -f /sys/class/shrimp/shrimp0/device)); cd /sys/bus/pci/drivers/hamlyn";
    let shell = |line: &str| lab.vm(1).run_as(0, ["sh", "-c", line])?.finish_text();
    shell(&format!("{driver}; (echo $device >unbind; echo $device >/tmp/unbound) >/dev/null 2>&1 &"))?;
    eventually(|| Ok(!shell("cat /tmp/unbound 2>/dev/null || true")?.is_empty()), "the driver is unbound")?;
    // The process keeps its mapping, but stores to it go nowhere.
    sender.expect(&format!("store {mapping} 4 6"), &json!({ "stored": true }))?;
    shell("cd /sys/bus/pci/drivers/hamlyn; cat /tmp/unbound >bind")?;
    drop(sender);
    let usable = || Ok(both_are_usable(&lab).is_ok());
    eventually(usable, "the card is usable once it is bound again")
}

/// A machine with 5 GiB has most of its memory above 4 GiB, and its kernel gives that to processes
/// first.
#[test]
fn memory_above_4_gib_is_mapped() -> Result<()> {
    let large = |vms| Ok::<_, anyhow::Error>(builder(vms)?.memory(Memory::mib(5120)));
    let lab = lab_of(large(2)?);
    let (mut receiver, mut sender) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (buffer, handle) = export(&mut receiver, 8192)?;
    let mapping = map(&mut sender, &handle, "0 8192", "single")?;
    sender.expect(&format!("fill {mapping} 0 8192 3"), &json!({ "filled": 8192 }))?;
    let check = format!("check {buffer} 0 8192 3");
    eventually(|| Ok(receiver.ask(&check)?["arrived"] == true), "all of it arrives")?;
    // The same memory lies beyond a table for 4 GiB.
    let lab = lab_of(large(1)?.card_args(["--pages", "1048576"]));
    desk(&lab, 0)?.fails("export 8192 0", "lies behind the card's page table")
}

#[test]
fn root_sets_thresholds_and_merge_time_at_runtime() -> Result<()> {
    let lab = shrimp_lab(2)?;
    let (mut receiver, mut sender) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let shell = |user: u32, line: &str| lab.vm(1).run_as(user, ["sh", "-c", line])?.finish_text();
    let knobs = "cd /sys/class/shrimp/shrimp0";
    for (name, value, is) in
        [("out_threshold", "100", "100"), ("in_threshold", "0", "1"), ("merge_time", "4000000", "1000000")]
    {
        let said = shell(0, &format!("{knobs}; echo {value} >{name}; cat {name}"))?;
        ensure!(said == [is], "{name}: {said:?}");
    }
    ensure!(
        shell(1000, &format!("{knobs}; echo 5 >merge_time || echo refused"))?.contains(&"refused".to_owned())
    );
    // A threshold of a few packets delays stores, and loses none.
    let (buffer, handle) = export(&mut receiver, 8192)?;
    let mapping = map(&mut sender, &handle, "0 8192", "single")?;
    sender.expect(&format!("fill {mapping} 0 8192 3"), &json!({ "filled": 8192 }))?;
    let check = format!("check {buffer} 0 8192 3");
    eventually(|| Ok(receiver.ask(&check)?["arrived"] == true), "all of it arrives")?;
    ensure!(counter(&lab, 1, "outgoing_full")? > 0, "the threshold was reached");
    Ok(())
}
