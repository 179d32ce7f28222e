//! The card's second function, where a doorbell costs no round trip: with it, without it, and with
//! another card's function.

use anyhow::Result;
use hamlyn_lab::{Builder, Lab};

use crate::driver::complaints;
use crate::messages::{ping_pong, transfer};
use crate::{eventually, lab_of, text};

/// Returns how the driver's log describes the doorbells, one word for each card.
fn doorbells(lab: &Lab, vm: usize) -> Result<Vec<String>> {
    let log = lab.vm(vm).run_as(0, ["dmesg"])?.finish_text()?;
    let said = log.iter().filter_map(|line| line.split_once("doorbells are "));
    Ok(said.map(|(_, what)| what.to_owned()).collect())
}

fn messages_pass(lab: &Lab) -> Result<()> {
    ping_pong(lab, 0, 1, 300)?;
    transfer(lab, 1, 0, 300_007)?;
    for card in 0..2 {
        assert!(lab.card_counters(card)?["card"]["doorbells"].as_u64() > Some(0), "card {card} was not rung");
        assert_eq!(lab.refused(card)?, 0, "card {card}: {}", lab.card_counters(card)?);
    }
    Ok(())
}

#[test]
fn doorbells_use_second_function_or_fall_back() -> Result<()> {
    for (has, what) in [(true, "posted"), (false, "trapped")] {
        let lab = lab_of(Lab::builder().vms(2).one_process(has).doorbell_function(has));
        for vm in 0..2 {
            assert_eq!(doorbells(&lab, vm)?, [what], "vm{vm}");
        }
        messages_pass(&lab)?;
    }
    Ok(())
}

#[test]
fn second_function_is_found_after_reload_and_reset() -> Result<()> {
    let lab = lab_of(Lab::builder().vms(2));
    let driver = "/sys/bus/pci/drivers/hamlyn";
    let address =
        lab.vm(0).run_as(0, ["sh", "-c", &format!("cd {driver} && ls -d 0000:*")])?.finish_text()?;
    // One of the functions is bound to the driver. The other belongs to the same card.
    let [address] = &address[..] else { panic!("the driver has {address:?}") };
    let other = address.replace(".0", ".1");
    let ways = [
        format!("echo {address} > {driver}/unbind; echo {address} > {driver}/bind"),
        format!("echo 1 > {driver}/{address}/reset"),
        format!("echo 1 > /sys/bus/pci/devices/{other}/reset"),
        "rmmod hamlyn; insmod /lib/hamlyn.ko".to_owned(),
        // Both functions are removed and found again.
        format!(
            "for f in {other} {address}; do echo 1 > /sys/bus/pci/devices/$f/remove; done; \
             echo 1 > /sys/bus/pci/rescan"
        ),
    ];
    for way in ways {
        lab.vm(0).run_as(0, ["sh", "-c", &format!("set -e; {way}")])?.finish_text()?;
        lab.vm(0).run_as(0, ["self-test"])?.finish()?;
        ping_pong(&lab, 0, 1, 100)?;
    }
    let [posted, trapped] = ["posted", "trapped"];
    let reset_of_the_other = [trapped, posted];
    let both_away_and_found = [trapped, trapped, posted];
    let expected = [&[posted, posted][..], &reset_of_the_other, &[posted], &both_away_and_found].concat();
    assert_eq!(doorbells(&lab, 0)?, expected);
    lab.vm(0).reboot()?;
    assert_eq!(doorbells(&lab, 0)?, ["posted"]);
    ping_pong(&lab, 0, 1, 100)
}

#[test]
fn second_function_may_disappear_and_return_under_load() -> Result<()> {
    let lab = lab_of(Lab::builder().vms(2));
    let shell = |script: &str| lab.vm(0).run_as(0, ["sh", "-c", script])?.finish_text();
    let address = shell("cd /sys/bus/pci/drivers/hamlyn && ls -d 0000:*")?.pop().expect("a card");
    let other = address.replace(".0", ".1");
    let mut echo = lab.vm(1).run(["ping-pong", "serve"])?;
    let ticket = text(&echo.answer()?, "ticket");
    // More round trips than can pass before the last step.
    let mut ping = lab.vm(0).run(["ping-pong", "run", "--ticket", &ticket, "--count", "100000000"])?;
    echo.say(&text(&ping.answer()?, "ticket"))?;
    let driver = "/sys/bus/pci/drivers/hamlyn-doorbell";
    let ways = [
        (format!("echo 1 > /sys/bus/pci/devices/{other}/remove"), "trapped"),
        ("echo 1 > /sys/bus/pci/rescan".to_owned(), "posted"),
        (format!("echo {other} > {driver}/unbind"), "trapped"),
        (format!("echo {other} > {driver}/bind"), "posted"),
    ];
    for (way, expected) in ways {
        shell(&way)?;
        assert_eq!(doorbells(&lab, 0)?.last().map(String::as_str), Some(expected), "{way}");
        let sent = || anyhow::Ok(lab.card_counters(0)?["card"]["messages_sent"].as_u64().unwrap_or(0));
        let before = sent()?;
        eventually(|| Ok(sent()? > before + 100), "messages pass")?;
    }
    ping.kill(9)?;
    ping.wait()?;
    echo.kill(9)?;
    echo.wait()?;
    // The function is removed permanently, and the driver is unloaded: it holds no reference to the
    // removed function.
    shell(&format!(
        "set -e; echo 1 > /sys/bus/pci/devices/{other}/remove; rmmod hamlyn; insmod /lib/hamlyn.ko"
    ))?;
    assert_eq!(doorbells(&lab, 0)?.last().map(String::as_str), Some("trapped"));
    complaints(&lab)?;
    ping_pong(&lab, 0, 1, 100)
}

#[test]
fn doorbells_of_another_card_are_not_rung() -> Result<()> {
    let lab = lab_of(with_swapped_doorbells(Lab::builder().vms(1).spare_cards(2)));
    assert_eq!(doorbells(&lab, 0)?, ["posted", "another card's", "trapped"]);
    let mut watch = lab.vm(0).run(["intrude", "watch", "--card", "/dev/hamlyn1"])?;
    text(&watch.answer()?, "ticket");
    watch.say("done")?;
    watch.finish()?;
    assert_eq!(lab.card_counters(2)?["card"]["doorbells"], 0);
    Ok(())
}

#[test]
fn doorbells_without_a_card_are_reported_once() -> Result<()> {
    // A slot of its own, as Cloud Hypervisor gives each device.
    let alone = |_: usize, run: &std::path::Path| {
        let bell = function(run, "card1.sock.doorbell", r#""addr":"0x12.0""#);
        ["-device", &bell].map(str::to_owned).to_vec()
    };
    let lab = lab_of(Lab::builder().vms(1).spare_cards(1).qemu_args(alone));
    assert_eq!(doorbells(&lab, 0)?, ["posted"]);
    let log = lab.vm(0).run_as(0, ["dmesg"])?.finish_text()?;
    let told: Vec<_> = log.iter().filter(|line| line.contains("these doorbells have no card")).collect();
    assert_eq!(told.len(), 1, "{log:#?}");
    assert!(told[0].contains("0000:00:12.0"), "{told:?}");
    Ok(())
}

/// Returns QEMU's device arguments for a function of a card.
fn function(run: &std::path::Path, socket: &str, more: &str) -> String {
    let socket = run.join(socket);
    let socket = format!(r#""socket":{{"type":"unix","path":"{}"}}"#, socket.display());
    format!(r#"{{"driver":"vfio-user-pci",{socket},"x-msg-timeout":60000,{more}}}"#)
}

/// Adds a second card, card 1, to the first machine, with the doorbells of card 2.
fn with_swapped_doorbells(lab: Builder) -> Builder {
    lab.qemu_args(|_, run| {
        let first = function(run, "card1.sock", r#""addr":"0x11.0","multifunction":true"#);
        let second = function(run, "card2.sock.doorbell", r#""addr":"0x11.1""#);
        ["-device", &first, "-device", &second].map(str::to_owned).to_vec()
    })
}
