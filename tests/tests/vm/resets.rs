//! Resets of the card, reloads of the module and restarts of the machine.

use anyhow::Result;
use hamlyn_lab::{Lab, Memory};
use serde_json::Value;

use crate::driver::complaints;
use crate::messages::ping_pong;
use crate::{eventually, lab, lab_of, shared, text};

/// Returns the card's directory in the guest's sysfs.
fn device(lab: &crate::Turn, vm: usize) -> Result<String> {
    let lines =
        lab.vm(vm).run_as(0, ["sh", "-c", "ls -d /sys/bus/pci/drivers/hamlyn/0000:*"])?.finish_text()?;
    Ok(lines.into_iter().next().expect("the driver has a device"))
}

#[test]
fn module_unloads_only_when_unused_and_reloads() -> Result<()> {
    let lab = shared();
    let mut user = lab.vm(1).run(["intrude", "watch"])?;
    text(&user.answer()?, "ticket");
    assert!(lab.vm(1).run_as(0, ["rmmod", "hamlyn"])?.finish_text().is_err(), "the module has a user");
    user.say("done")?;
    user.finish()?;
    for _ in 0..3 {
        lab.vm(1).run_as(0, ["rmmod", "hamlyn"])?.finish_text()?;
        lab.vm(1).run_as(0, ["insmod", "/lib/hamlyn.ko"])?.finish_text()?;
        lab.vm(1).run_as(0, ["self-test"])?.finish()?;
    }
    ping_pong(&lab, 0, 1, 200)
}

#[test]
fn reset_ends_open_files_and_card_works_again() -> Result<()> {
    let lab = lab(2);
    let mut user = lab.vm(1).run(["intrude", "watch"])?;
    let ticket = text(&user.answer()?, "ticket");
    let reset = format!("echo 1 > {}/reset", device(&lab, 1)?);
    lab.vm(1).run_as(0, ["sh", "-c", &reset])?.finish_text()?;
    // The slot that the ticket named is gone, whatever the key.
    let before = lab.refused(1)?;
    lab.vm(0).run(["intrude", "attack", "--ticket", &ticket, "--how", "past-end"])?.finish()?;
    eventually(|| Ok(lab.refused(1)? == before + 1), "the attempt is refused")?;
    assert_eq!(lab.card_counters(1)?["card"]["refused_closed_slot"], 1);
    user.kill(9)?;
    user.wait()?;
    ping_pong(&lab, 0, 1, 200)
}

#[test]
fn file_closed_during_reset_is_not_used_again() -> Result<()> {
    // Freed memory is poisoned, so a use after free causes an oops.
    let lab = lab_of(Lab::builder().vms(1).memory(Memory::mib(1024)).kernel_args("slub_debug=FZP"));
    let reset = format!("echo 1 > {}/reset", device(&lab, 0)?);
    for _ in 0..5 {
        // The reset unpins the slot before it releases the terminus. The file is closed in between.
        let mut closes = lab.vm(0).run_as(0, ["driver-check", "close-on-reset", "--mib", "400"])?;
        assert_eq!(closes.answer()?["holding"], Value::Bool(true));
        lab.vm(0).run_as(0, ["sh", "-c", &reset])?.finish_text()?;
        assert_eq!(closes.answer()?["closed"], Value::Bool(true));
        closes.finish()?;
        complaints(&lab)?;
    }
    lab.vm(0).run_as(0, ["self-test"])?.finish()?;
    Ok(())
}

#[test]
fn a_machine_that_restarts_finds_its_card() -> Result<()> {
    let lab = lab(2);
    ping_pong(&lab, 0, 1, 100)?;
    lab.vm(1).reboot()?;
    ping_pong(&lab, 0, 1, 100)?;
    lab.vm(0).power_off()?;
    lab.vm(0).start()?;
    ping_pong(&lab, 1, 0, 100)
}
