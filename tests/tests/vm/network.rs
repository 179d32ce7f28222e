//! The network device: programs that have never heard of these cards, over them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use hamlyn_host::catalogue;
use hamlyn_lab::{Builder, Lab, Vm};

use crate::left::log_is_clean;
use crate::turn::{LIMIT, lab_of};
use crate::{eventually, if_long};

/// Describes machines with a network over their cards.
pub(crate) fn network(model: &str, vms: usize) -> Result<Builder> {
    let range = "10.7.0.0/24".parse().map_err(anyhow::Error::msg)?;
    Ok(Lab::builder().models(&[catalogue::find(model)?]).vms(vms).ip(Some(range)))
}

/// Runs a shell command as root, and returns its output.
pub(crate) fn root(vm: &Vm, command: &str) -> Result<String> {
    Ok(vm.run_as(0, ["sh", "-c", command])?.finish_text()?.join("\n"))
}

/// Waits in a machine until a shell command succeeds.
pub(crate) fn wait_until(vm: &Vm, holds: &str) -> Result<()> {
    let wait = format!("for i in $(seq 6000); do {holds} && exit; sleep 0.1; done; ps; false");
    root(vm, &wait).with_context(|| format!("{}: not yet: {holds}", vm.name())).map(drop)
}

/// Waits until the device has a peer.
fn wait_for_carrier(vm: &Vm) -> Result<()> {
    wait_until(vm, "grep -q 1 /sys/class/net/uln0/carrier")
}

/// Pings until the other machine answers.
pub(crate) fn wait_for_answer(vm: &Vm, to: &str) -> Result<()> {
    wait_until(vm, &format!("ping -c 1 -W 1 {to} >/dev/null"))
}

/// Sends 16 MiB by TCP to this port, and compares sums.
fn stream_to(port: u16, from: &Vm, to: &Vm) -> Result<()> {
    let take = format!("echo ready; nc -l -p {port} | md5sum");
    let mut taking = to.run_as(0, ["sh", "-c", &take])?;
    taking.line()?;
    let give = format!(
        "head -c 16777216 /dev/urandom > /tmp/{port}
        for i in $(seq 6000); do nc -w {LIMIT} {} {port} < /tmp/{port} && break; sleep 0.1; done
        md5sum < /tmp/{port}; rm /tmp/{port}",
        to.name()
    );
    let given = root(from, &give)?;
    let taken = taking.finish_text()?.join("\n");
    ensure!(given == taken, "{given}, but {taken}");
    Ok(())
}

fn stream(from: &Vm, to: &Vm) -> Result<()> {
    stream_to(5000, from, to)
}

/// Streams in both directions until `is_over`, and returns how often.
fn streams_until(is_over: &AtomicBool, ends: [&Vm; 2]) -> Result<u32> {
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        stream_to(5001, ends[0], ends[1])?;
        stream_to(5001, ends[1], ends[0])?;
        count += 2;
    }
    Ok(count)
}

/// Returns how many packets the device has dropped or found wrong, for each reason, and how often
/// its carrier has come or gone.
fn lost(vm: &Vm) -> Result<[(&'static str, u64); 5]> {
    let mut counters = [
        "carrier_changes",
        "statistics/rx_errors",
        "statistics/rx_dropped",
        "statistics/tx_dropped",
        "statistics/tx_carrier_errors",
    ]
    .map(|name| (name, 0));
    for (name, value) in &mut counters {
        *value = root(vm, &format!("cat /sys/class/net/uln0/{name}"))?.parse()?;
    }
    Ok(counters)
}

/// Sends pings of sizes that take one packet, several, and the longest there is; then streams in
/// both directions. Nothing may be dropped.
fn programs_run_over(machines: Builder) -> Result<()> {
    let lab = lab_of(machines);
    wait_for_carrier(lab.vm(0))?;
    // Between the carrier and the start of the queues, the kernel drops packets.
    wait_for_answer(lab.vm(0), "vm1")?;
    let before = [lost(lab.vm(0))?, lost(lab.vm(1))?];
    for mtu in [1500, 65521] {
        for vm in lab.vms() {
            root(vm, &format!("ip link set uln0 mtu {mtu}"))?;
        }
        for size in [1, 56, 1472, 1473, 65507] {
            // One at a time: of several, `ping` does not wait for a late answer to the last.
            for _ in 0..2 {
                let told = root(lab.vm(0), &format!("ping -c 1 -W 60 -s {size} vm1"))?;
                ensure!(told.contains("1 packets received"), "{size} bytes: {told}");
            }
        }
        stream(lab.vm(0), lab.vm(1))?;
        stream(lab.vm(1), lab.vm(0))?;
    }
    for (vm, before) in lab.vms().iter().zip(before) {
        let after = lost(vm)?;
        ensure!(after == before, "{}: {after:?}, before: {before:?}", vm.name());
    }
    root(lab.vm(0), "ip link set uln0 down && rmmod hamlyn_net")?;
    (0..2).try_for_each(|vm| log_is_clean(&lab, vm))
}

#[test]
fn programs_run_over_hamlyn_cards() -> Result<()> {
    // Packets overtake each other.
    programs_run_over(network("hamlyn", 2)?.switch_args(["--paths", "4"]))
}

#[test]
fn programs_run_over_clan_cards() -> Result<()> {
    programs_run_over(network("clan", 2)?)
}

#[test]
fn programs_run_over_dart_cards() -> Result<()> {
    programs_run_over(network("dart", 2)?)
}

#[test]
fn programs_run_over_shrimp_cards() -> Result<()> {
    programs_run_over(network("shrimp", 2)?)
}

#[test]
fn programs_run_over_echo_cards() -> Result<()> {
    programs_run_over(network("echo", 2)?)
}

/// Ends each part of the network once, and waits until it works again.
fn reset_parts(lab: &Lab) -> Result<()> {
    let [one, other, third] = [lab.vm(0), lab.vm(1), lab.vm(2)];
    root(other, "ip link set uln0 down; sleep 0.5; ip link set uln0 up")?;
    wait_for_answer(one, "vm1")?;
    root(
        other,
        "rmmod hamlyn_net; insmod /lib/hamlyn-net.ko; ip addr add 10.7.0.2/24 dev uln0; ip link set uln0 up",
    )?;
    wait_for_answer(one, "vm1")?;
    root(other, "echo 1 > $(ls -d /sys/bus/pci/drivers/hamlyn/0000:*)/reset")?;
    wait_for_answer(one, "vm1")?;
    other.reboot()?;
    wait_for_answer(one, "vm1")?;
    lab.restart_switch()?;
    for (from, to) in [(one, "vm1"), (other, "vm2"), (third, "vm0")] {
        wait_for_answer(from, to)?;
    }
    Ok(())
}

/// Returns a machine's free memory, in KiB, without what it keeps of files.
fn free_memory(vm: &Vm) -> Result<u64> {
    let free = "echo 3 > /proc/sys/vm/drop_caches; awk '/^MemFree:/ { print $2 }' /proc/meminfo";
    Ok(root(vm, free)?.parse()?)
}

#[test]
fn network_survives_resets_of_its_parts() -> Result<()> {
    // Two processors, so that ends meet packets.
    let two = |_: usize, _: &Path| ["-smp", "2"].map(str::to_owned).to_vec();
    let lab = lab_of(network("hamlyn", 3)?.qemu_args(two));
    let [one, third] = [lab.vm(0), lab.vm(2)];
    wait_for_answer(one, "vm1")?;
    wait_for_answer(one, "vm2")?;
    // A flood that each of these interrupts.
    let mut flood =
        one.run_as(0, ["sh", "-c", "while :; do ping -c 5 -i 0.01 -s 30000 vm1; done >/dev/null"])?;
    reset_parts(&lab)?;
    let rounds = if_long(15, 0);
    if rounds > 0 {
        soak(&lab, rounds)?;
    }
    flood.kill(9)?;
    flood.wait()?;
    stream(third, one)?;
    (0..3).try_for_each(|vm| log_is_clean(&lab, vm))
}

/// Resets parts in turn while the others' streams go on. None breaks, no packet is found wrong, and
/// no memory is lost.
fn soak(lab: &Lab, rounds: u32) -> Result<()> {
    let ends = [lab.vm(0), lab.vm(2)];
    stream(ends[0], ends[1])?;
    let free = [free_memory(ends[0])?, free_memory(ends[1])?];
    let is_over = AtomicBool::new(false);
    let streams = thread::scope(|scope| {
        let streams = scope.spawn(|| streams_until(&is_over, ends));
        let resets = (0..rounds).try_for_each(|_| reset_parts(lab));
        is_over.store(true, Ordering::Relaxed);
        let streams = streams.join().expect("the streams do not panic");
        resets.and(streams)
    })?;
    ensure!(streams >= rounds, "{streams} streams in {rounds} rounds");
    for (vm, free) in ends.into_iter().zip(free) {
        let wrong: Vec<_> = lost(vm)?.into_iter().filter(|(name, _)| name.contains("/rx_")).collect();
        ensure!(wrong.iter().all(|(_, count)| *count == 0), "{}: {wrong:?}", vm.name());
        // A channel's rings have half a MiB, and each round ends at least five. The kernel takes a
        // moment to free what the last stream had.
        let is_back = || Ok(free_memory(vm)? + (16 << 10) > free);
        eventually(is_back, &format!("{} has its {free} KiB of free memory back", vm.name()))?;
    }
    Ok(())
}
