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

#[test]
fn ping_of_any_size_by_dart() -> Result<()> {
    let lab = lab("dart", 2)?;
    wait_for_carrier(lab.vm(0))?;
    for size in [1, 56, 1472, 1473, 8000, 65507] {
        let told = root(lab.vm(0), &format!("ping -c 3 -i 0.2 -s {size} vm1"))?;
        ensure!(told.contains("3 packets received"), "{size} bytes: {told}");
    }
    println!("{}", root(lab.vm(0), "ping -c 20 -i 0.05 vm1; ip -s link show uln0; dmesg | tail -n 20")?);
    Ok(())
}
