//! Cards that lie to their driver (`device/cli/examples/lying-card`). Programs may fail, and the
//! driver may stop the card. But the kernel reports no error, the module can be unloaded, and the
//! other machine and its card continue.

use anyhow::{Context, Result, ensure};
use hamlyn_host::catalogue;
use hamlyn_lab::{Builder, Kit, Lab};

use crate::left::log_has_none;
use crate::{Turn, if_long, lab_of};

/// Runs programs on the machine's card, one of them with the other machine. `timeout` ends a
/// program that waits for an answer that does not come.
const USE: &str = "for words in 'hamlyn-ping 1 --count 20 --timeout 3' \"$1\"; do timeout -s KILL 8 $words; done >/dev/null 2>&1
echo used";
/// Resets the card, as an administrator does after it was stopped. The driver gives up if the card
/// does not obey.
const RESET: &str = "for card in /sys/bus/pci/drivers/hamlyn/0000:*; do timeout -s KILL 30 sh -c \"echo 1 >$card/reset\"; done 2>&1
echo reset";
/// Unloads the module and loads it again. Its probe may refuse the card.
const RELOAD: &str = "timeout -s KILL 60 rmmod hamlyn && timeout -s KILL 60 insmod /lib/hamlyn.ko
lsmod | grep -c ^hamlyn";

fn script(lab: &Lab, vm: usize, user: u32, script: &str, words: &[&str]) -> Result<Vec<String>> {
    lab.vm(vm).run_as(user, ["sh", "-c", script, "sh"].iter().chain(words).copied())?.finish_text()
}

fn lies_told(lab: &Lab) -> Result<u64> {
    lab.card_counters(0)?["card"]["lies_told"].as_u64().context("a card that counts no lies")
}

/// Describes two machines with cards of a model. The first card lies as `flags` say.
fn liars(model: &str, flags: &[&str]) -> Result<Builder> {
    let program = Kit::find()?.program("examples/lying-card")?;
    let builder = Lab::builder().models(&[catalogue::find(model)?]).vms(2);
    Ok(builder.card_program(0, program, flags.iter().copied()))
}

fn lying_lab(model: &str, flags: &[&str]) -> Result<Turn> {
    Ok(lab_of(liars(model, flags)?))
}

/// Runs `checks` on a lying card of a model (see its `--one-in`), and then the test `honest` on the
/// other machine's card.
pub(crate) fn driver_survives_lies(
    model: &'static str,
    one_in: u32,
    checks: &[&str],
    honest: &[&str],
) -> Result<()> {
    let lab = lying_lab(model, &["--one-in", &one_in.to_string()])?;
    for round in 0..if_long(20, 1) {
        let mut peer = lab.vm(1).run(["hamlyn-ping"])?;
        let user = [1001, 0][round as usize % 2];
        for check in checks {
            ensure!(script(&lab, 0, user, USE, &[check])? == ["used"], "{check}");
            ensure!(script(&lab, 0, 0, RESET, &[])?.pop().as_deref() == Some("reset"), "{check}");
        }
        ensure!(script(&lab, 0, 0, RELOAD, &[])? == ["1"], "round {round}");
        peer.kill(9)?;
        peer.wait()?;
        for vm in [0, 1] {
            log_has_none(&lab, vm, &[]).with_context(|| format!("round {round}"))?;
        }
    }
    let told = lies_told(&lab)?;
    ensure!(told > 0, "no lie was told");
    println!("{model}: {told} lies told");
    lab.vm(1).run_as(0, honest.iter().copied())?.finish_text()?;
    Ok(())
}

#[test]
fn driver_survives_a_hamlyn_card_that_lies() -> Result<()> {
    let checks = ["driver-check calls", "driver-check sleep", "driver-check completions", "loopback"];
    driver_survives_lies("hamlyn", 3, &checks, &["self-test"])
}

#[test]
fn driver_survives_a_shrimp_card_that_lies() -> Result<()> {
    driver_survives_lies("shrimp", 3, &["shrimp self-test", "shrimp trespass"], &["shrimp", "self-test"])
}

#[test]
fn driver_survives_a_clan_card_that_lies() -> Result<()> {
    let checks = ["clan-driver self-test", "clan-driver trespass"];
    driver_survives_lies("clan", 3, &checks, &["clan-driver", "self-test"])
}

#[test]
fn driver_survives_a_dart_card_that_lies() -> Result<()> {
    let checks = ["dart self-test", "dart-driver trespass", "dart-driver sparse 1"];
    driver_survives_lies("dart", 3, &checks, &["dart", "self-test"])
}

/// Uses the network over a lying card, and takes it down.
const PING: &str = "ip link set uln0 up
timeout -s KILL 60 ping -c 20 -i 0.1 -w 5 -s 8000 vm1
timeout -s KILL 60 ip link set uln0 down; echo used";

/// Unloads both modules and loads them again. Their probes may refuse the card.
const RELOAD_BOTH: &str = "timeout -s KILL 60 rmmod hamlyn_net && timeout -s KILL 60 rmmod hamlyn
for part in hamlyn hamlyn-net; do timeout -s KILL 60 insmod /lib/$part.ko; done
ip addr add 10.7.0.1/24 dev uln0 2>/dev/null
lsmod | grep -c ^hamlyn";

fn network_survives_lies(model: &str) -> Result<()> {
    let range = "10.7.0.0/24".parse().map_err(anyhow::Error::msg)?;
    let lab = lab_of(liars(model, &["--one-in", "3"])?.ip(Some(range)));
    for round in 0..if_long(20, 3) {
        for _ in 0..2 {
            let used = script(&lab, 0, 0, PING, &[])?;
            ensure!(used.last().is_some_and(|line| line == "used"), "round {round}: {used:?}");
            ensure!(script(&lab, 0, 0, RESET, &[])?.pop().as_deref() == Some("reset"), "round {round}");
        }
        let loaded = script(&lab, 0, 0, RELOAD_BOTH, &[])?;
        ensure!(loaded.last().is_some_and(|line| line == "2"), "round {round}: {loaded:?}");
        for vm in [0, 1] {
            log_has_none(&lab, vm, &[]).with_context(|| format!("round {round}"))?;
        }
    }
    ensure!(lies_told(&lab)? > 0, "no lie was told");
    Ok(())
}

#[test]
fn network_survives_a_hamlyn_card_that_lies() -> Result<()> {
    network_survives_lies("hamlyn")
}

#[test]
fn network_survives_a_dart_card_that_lies() -> Result<()> {
    network_survives_lies("dart")
}

#[test]
fn network_survives_a_shrimp_card_that_lies() -> Result<()> {
    network_survives_lies("shrimp")
}

/// Whatever the card asks for, the driver brings in no page outside the endpoint, and no more than
/// a message may need.
#[test]
fn driver_brings_in_no_page_outside_the_endpoint() -> Result<()> {
    let lab = lying_lab("dart", &["--one-in", "2", "--only-misses", "1"])?;
    let mut told = 0;
    // How many lies a round tells depends on how busy this machine is.
    for round in 0..20 {
        for check in ["dart self-test", "dart-driver sparse 1", "dart-driver remap"] {
            ensure!(script(&lab, 0, 1001, USE, &[check])? == ["used"], "{check}");
        }
        log_has_none(&lab, 0, &[]).with_context(|| format!("round {round}"))?;
        told = lies_told(&lab)?;
        if told > 20 && round + 1 >= if_long(20, 2) {
            break;
        }
    }
    let outside = lab.card_counters(0)?["card"]["pages_told_outside"].as_u64();
    ensure!(told > 20 && outside == Some(0), "{told} lies, {outside:?} pages outside an endpoint are told");
    // Nothing of it is left. The driver did not stop the card, because it obeyed commands.
    ensure!(script(&lab, 0, 0, RELOAD, &[])? == ["1"]);
    log_has_none(&lab, 0, &[])
}
