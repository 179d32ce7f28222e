//! Hot-plugs cards into running machines, with the port that `hamlyn qemu-args --port` prints and
//! in the order of docs/libvirt.md.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hamlyn_host::catalogue::{self, Model};
use hamlyn_lab::Lab;
use hamlyn_tests::killed::Killed;
use serde_json::json;

use crate::shrimp_paging::shell;
use crate::{eventually, lab_of};

/// The slot of the port. The machine's own card has another.
const SLOT: &str = "20";

/// Returns the arguments of the port, as the program prints them.
fn port(program: &Path, model: &Model) -> Result<Vec<String>> {
    let words = ["qemu-args", "--port", "hot", "--slot", SLOT, "--model", model.name];
    let output = Command::new(program).args(words).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.split_whitespace().map(str::to_owned).collect())
}

/// Plugs a card of one model into a running machine that has a card of another model, and runs a
/// test with it.
fn is_plugged_in(model: &'static Model, own: &'static Model, check: &[&str]) -> Result<()> {
    let program = hamlyn_lab::hamlyn()?;
    let port = port(&program, model)?;
    let lab = lab_of(Lab::builder().models(&[own]).vms(1).qemu_args(move |_, _: &Path| port.clone()));
    // A switch links cards of one protocol, so this card has its own switch.
    let place = |name: &str| lab.directory().join(format!("plugged-{name}.sock"));
    let (socket, switch) = (place("card"), place("switch"));
    let _switch = Killed(Command::new(&program).args(["switch", "--socket"]).arg(&switch).spawn()?);
    eventually(|| Ok(switch.exists()), "the switch listens")?;
    let mut card = Command::new(&program);
    card.args(["card", "--model", model.name, "--socket"]).arg(&socket).arg("--switch").arg(&switch);
    let _card = Killed(card.spawn()?);
    eventually(|| Ok(socket.exists()), "the card listens")?;
    let device = |id: &str, addr: &str, path: &Path| {
        json!({ "driver": "vfio-user-pci", "id": id, "bus": "hot", "addr": addr, "multifunction": addr == "0x0.0",
            "socket": { "type": "unix", "path": path } })
    };
    // The guest scans the slot when function 0 appears.
    if catalogue::has_doorbells(model) {
        lab.vm(0).plug_in(&device("bells", "0x0.1", &socket.with_extension("sock.doorbell")))?;
    }
    lab.vm(0).plug_in(&device("card", "0x0.0", &socket))?;
    let there = format!("ls /sys/class/{}", model.name);
    let has_driver = || Ok(!shell(&lab, 0, &there).unwrap_or_default().is_empty());
    eventually(has_driver, "the card has a driver").with_context(|| lab.vm(0).kernel_log())?;
    lab.vm(0).run_as(0, check.iter().copied())?.finish_text()?;
    let log = lab.vm(0).kernel_log();
    ensure!(!log.contains("can't assign"), "{log}");
    Ok(())
}

#[test]
fn every_card_model_can_be_hot_plugged() -> Result<()> {
    let checks: [(_, _, &[&str]); 4] = [
        ("hamlyn", "clan", &["self-test"]),
        ("shrimp", "hamlyn", &["shrimp", "self-test"]),
        ("clan", "hamlyn", &["clan-driver", "self-test"]),
        ("dart", "hamlyn", &["dart", "self-test"]),
    ];
    checks.iter().try_for_each(|(model, own, check)| {
        println!("{model}");
        is_plugged_in(catalogue::find(model)?, catalogue::find(own)?, check)
    })
}
