//! Suspended machines and bus errors: files lose their objects and report it, and the card works
//! again.

use anyhow::{Context, Result};
use hamlyn_lab::{Kit, Lab, Run};
use serde_json::Value;

use crate::driver::check;
use crate::messages::ping_pong;
use crate::{Turn, eventually, lab_of};

/// Starts two machines that can be suspended to memory. A kernel that was started without its
/// compressed shell, as in other labs, does not wake up again, with or without a card.
fn sleepy() -> Result<Turn> {
    let mut kit = Kit::find()?;
    kit.kernel.set_file_name("vmlinuz");
    let s3 = ["-global", "ICH9-LPC.disable_s3=0"];
    let lab = Lab::builder().vms(2).kit(kit).kernel_args("no_console_suspend ignore_loglevel");
    Ok(lab_of(lab.qemu_args(move |_, _| s3.map(str::to_owned).to_vec())))
}

/// Starts a program that holds one object of every kind, asleep and polling.
fn holder(lab: &Lab, vm: usize, card: &str) -> Result<Run> {
    let mut hold = lab.vm(vm).run(["driver-check", "--card", card, "hold"])?;
    assert_eq!(hold.answer()?["holding"], Value::Bool(true));
    Ok(hold)
}

/// Runs in the suspended machine and reports on its console, because the agent's port does not
/// survive a suspension.
const SUSPEND: &str = "set -e; exec >/dev/console 2>&1; mkfifo /tmp/words; \
     driver-check hold </tmp/words >/tmp/held & exec 3>/tmp/words; \
     until grep -q holding /tmp/held; do sleep 0.1; done; \
     echo deep > /sys/power/mem_sleep; echo mem > /sys/power/state; \
     echo gone >&3; wait; cat /tmp/held; self-test; driver-check sleep | tail -n 1; echo all is told";

#[test]
fn card_works_after_suspend_to_memory() -> Result<()> {
    let lab = sleepy()?;
    ping_pong(&lab, 0, 1, 100)?;
    let _script = lab.vm(1).run_as(0, ["sh", "-c", SUSPEND])?;
    eventually(|| Ok(lab.vm(1).wake_up().is_ok()), "the machine is suspended")?;
    eventually(|| Ok(lab.vm(1).console()?.contains("all is told")), "it is awake, and its card works")?;
    let told = lab.vm(1).console()?;
    let says = |what: &str| assert!(told.contains(what), "{what}: {told}");
    says("PM: suspend exit");
    says("resumed; files that were open have lost what they had");
    // Every holder learns that its objects are lost, including one that slept in a call.
    says(r#"{"checks":17,"failed":0}"#);
    // A new file sleeps and is woken.
    says(r#"{"checks":145,"failed":0}"#);
    for bad in ["BUG", "WARNING", "Oops", "the card is stopped"] {
        assert!(!told.contains(bad), "{bad}: {told}");
    }
    eventually(|| Ok(lab.card_counters(1)?["enabled"] == true), "the card takes part")
}

#[test]
fn bus_error_stops_card_and_reset_restores_it() -> Result<()> {
    let lab = lab_of(Lab::builder().vms(1).spare_cards(1).qemu_args(|_, run| {
        let socket = run.join("card1.sock");
        let socket = format!(r#""socket":{{"type":"unix","path":"{}"}}"#, socket.display());
        let card = format!(r#"{{"driver":"vfio-user-pci",{socket},"x-msg-timeout":60000,"bus":"rp0"}}"#);
        ["-device", "pcie-root-port,id=rp0,chassis=1,slot=9", "-device", &card].map(str::to_owned).to_vec()
    }));
    let mut hold = holder(&lab, 0, "/dev/hamlyn1")?;
    // A data link protocol error is fatal, so the port's bus is reset.
    lab.vm(0).report_bus_error("rp0", "DLP")?;
    let log = || lab.vm(0).run_as(0, ["dmesg"])?.finish_text().context("the kernel's log");
    let said = |what: &'static str| move |lines: Vec<String>| lines.iter().any(|line| line.contains(what));
    let back = "reset after an error of the bus; files that were open have lost what they had";
    eventually(|| Ok(said(back)(log()?)), "the card is back")?;
    hold.say("gone")?;
    check(hold, 17)?;
    check(lab.vm(0).run(["driver-check", "--card", "/dev/hamlyn1", "sleep"])?, 82)?;
    check(lab.vm(0).run(["driver-check", "sleep"])?, 82)
}
