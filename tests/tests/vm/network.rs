//! The network device: programs that have never heard of these cards, over them.

use anyhow::{Result, ensure};
use hamlyn_host::catalogue;
use hamlyn_lab::{Lab, Vm};

use crate::turn::{Turn, lab_of};

/// Returns a lab of machines with a network over their cards.
fn lab(model: &str, vms: usize) -> Result<Turn> {
    let range = "10.7.0.0/24".parse().map_err(anyhow::Error::msg)?;
    Ok(lab_of(Lab::builder().models(&[catalogue::find(model)?]).vms(vms).ip(Some(range))))
}

/// Runs a shell command as root, and returns its output.
fn root(vm: &Vm, command: &str) -> Result<String> {
    Ok(vm.run_as(0, ["sh", "-c", command])?.finish_text()?.join("\n"))
}

/// Waits until the device has a peer.
fn wait_for_carrier(vm: &Vm) -> Result<()> {
    let up = "for i in $(seq 100); do grep -q 1 /sys/class/net/uln0/carrier && exit; sleep 0.1; done; false";
    root(vm, up).map(drop)
}

/// Sends pings of sizes that take one packet, several, and the longest there is.
fn ping(model: &str) -> Result<()> {
    let lab = lab(model, 2)?;
    wait_for_carrier(lab.vm(0))?;
    for size in [1, 56, 1472, 1473, 8000, 65507] {
        let told = root(lab.vm(0), &format!("ping -c 3 -i 0.2 -s {size} vm1"))?;
        ensure!(told.contains("3 packets received"), "{size} bytes: {told}");
    }
    println!("{}", root(lab.vm(0), "ping -c 20 -i 0.05 vm1 | tail -n 1")?);
    stream(&lab)
}

/// Sends 64 MiB by TCP, and compares sums.
fn stream(lab: &Turn) -> Result<()> {
    let take = "nc -l -p 5000 | md5sum";
    let give = "head -c 67108864 /dev/zero | tr '\\0' x > /tmp/x; sleep 1; time nc -w 20 vm1 5000 < /tmp/x; md5sum < /tmp/x";
    let mut taking = lab.vm(1).run_as(0, ["sh", "-c", take])?;
    let given = root(lab.vm(0), give)?;
    let taken = taking.finish_text()?.join("\n");
    println!("{given} {}", root(lab.vm(0), "grep uln0 /proc/net/dev")?);
    ensure!(given.contains(taken.trim()), "{given}, but {taken}");
    Ok(())
}

#[test]
fn ping_of_any_size_by_dart() -> Result<()> {
    ping("dart")
}

#[test]
fn ping_of_any_size_by_hamlyn() -> Result<()> {
    ping("hamlyn")
}
