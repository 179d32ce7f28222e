//! Express memory when processes, machines, cards, drivers and switches end: which error each peer
//! gets, and that all pages come back.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::express::{channel, desk, express, express_as, log_is_clean, memory, no_pages_are_held};
use crate::{eventually, lab_of};

/// Pages that a user may take from a half of 128 when no other user has any.
const SHARE: u64 = 58;
/// Hosts are given up after six seconds.
const HURRY: &str = "echo 6000 > /sys/module/hamlyn/parameters/peer_timeout";

fn root(lab: &Lab, vm: usize, script: &str) -> Result<Vec<String>> {
    lab.vm(vm).run_as(0, ["sh", "-c", script])?.finish_text()
}

fn hurry(lab: &Lab) -> Result<()> {
    (0..2).try_for_each(|vm| root(lab, vm, HURRY).map(drop))
}

/// A channel from machine 0 to machine 1 by express memory: each machine's desk, and the channel's
/// number there.
struct Pair {
    zero: Desk<Run>,
    one: Desk<Run>,
    numbers: [u64; 2],
}

impl Pair {
    fn open(lab: &Lab) -> Result<Pair> {
        let (mut zero, mut one) = (desk(lab, 0)?, desk(lab, 1)?);
        // A process that is still dying keeps its name for a while.
        static PAIRS: AtomicU32 = AtomicU32::new(0);
        let name = format!("pair{}", PAIRS.fetch_add(1, Ordering::Relaxed));
        let (numbers, by_memory) = channel((&mut one, 1), &mut zero, &name)?;
        ensure!(by_memory, "it goes by the card");
        Ok(Pair { zero, one, numbers: [numbers[1], numbers[0]] })
    }

    /// Runs a command on the channel's end at host 0 or 1.
    fn at(&mut self, host: usize, command: &str) -> Result<Value> {
        let number = self.numbers[host];
        let line = match command.split_once(' ') {
            Some((verb, rest)) => format!("{verb} {number} {rest}"),
            None => format!("{command} {number}"),
        };
        [&mut self.zero, &mut self.one][host].ask(&line)
    }

    fn kill(desk: &mut Desk<Run>) -> Result<()> {
        desk.0.kill(9)?;
        desk.0.wait()?;
        Ok(())
    }
}

/// Allocates as many pages as a user may have, and returns them. A host that had lost the other
/// host then asks it to settle their pages.
pub(crate) fn settle(desk: &mut Desk<Run>, host: usize) -> Result<()> {
    let made = desk.ask(&format!("make {host} {}", SHARE * 4096))?;
    let given = desk.expect(&format!("give {}", made["pages"]), &json!({ "given": true }));
    given.with_context(|| format!("{made}"))
}

/// Checks that channels can be opened, carry data correctly, and leave nothing behind.
fn all_is_well(lab: &Lab) -> Result<()> {
    let mut pair = Pair::open(lab)?;
    pair.one.begin(&format!("echo {} 20", pair.numbers[1]))?;
    ensure!(pair.at(0, "talk 20 1996")? == json!({ "talked": 20 }));
    ensure!(pair.one.answer()? == json!({ "echoed": 20 }));
    ensure!(pair.at(1, "drop")? == json!({ "dropped": true }));
    ensure!(pair.at(0, "receive")? == json!({ "lost": "Abandoned" }));
    ensure!(pair.at(0, "drop")? == json!({ "dropped": true }));
    settle(&mut pair.zero, 1)?;
    settle(&mut pair.one, 0)?;
    eventually(|| no_pages_are_held(&mut pair.zero, 1), "machine 0 has all pages back")?;
    eventually(|| no_pages_are_held(&mut pair.one, 0), "machine 1 has all pages back")?;
    (0..2).try_for_each(|vm| log_is_clean(lab, vm))
}

/// Checks for a reason that only names the host. Which one it is depends on which event a kernel
/// sees first.
fn host_is_lost(answer: &Value) -> Result<()> {
    ensure!(["Host", "HostReset", "Gone", "Link"].iter().any(|why| answer["lost"] == *why), "{answer}");
    Ok(())
}

#[test]
fn process_death_is_reported_after_its_last_message() -> Result<()> {
    let lab = lab_of(express(2).card_args(["--handshake", "6000"]));
    // In the middle of many messages: only whole messages arrive.
    let mut pair = Pair::open(&lab)?;
    ensure!(pair.at(0, "flood")? == json!({ "flooding": true }));
    ensure!(pair.at(1, "receive")? == json!({ "bytes": 1000, "right": true }));
    pair.one.begin(&format!("drain {}", pair.numbers[1]))?;
    Pair::kill(&mut pair.zero)?;
    let drained = pair.one.answer()?;
    ensure!(drained["lost"] == "Process" && drained["right"] == true, "{drained}");
    // In the middle of a message that is built in place, where the other end reads it.
    drop(pair);
    let mut pair = Pair::open(&lab)?;
    ensure!(pair.at(1, "send 5000")? == json!({ "sent": 5000 }));
    ensure!(pair.at(1, "begin 20000")? == json!({ "begun": 20_000 }));
    Pair::kill(&mut pair.one)?;
    ensure!(pair.at(0, "receive")? == json!({ "bytes": 5000, "right": true }));
    ensure!(pair.at(0, "receive")? == json!({ "lost": "Process" }));
    // A sender that waits for room when the receiver dies.
    drop(pair);
    let mut pair = Pair::open(&lab)?;
    ensure!(pair.at(0, "flood")? == json!({ "flooding": true }));
    Pair::kill(&mut pair.one)?;
    let told = pair.zero.answer()?;
    ensure!(told["error"].as_str().is_some_and(|error| error.contains("its process ended")), "{told}");
    // A close is distinguished from all of these.
    drop(pair);
    let mut pair = Pair::open(&lab)?;
    ensure!(pair.at(0, "send 3")? == json!({ "sent": 3 }));
    pair.zero.begin(&format!("close {}", pair.numbers[0]))?;
    ensure!(pair.at(1, "receive")? == json!({ "bytes": 3, "right": true }));
    ensure!(pair.at(1, "receive")? == json!({ "closed": true }));
    ensure!(pair.at(1, "close")? == json!({ "closed": true }));
    ensure!(pair.zero.answer()? == json!({ "closed": true }));
    drop(pair);
    all_is_well(&lab)?;
    hurry(&lab)?;
    all_but_processes_end(&lab)
}

#[test]
fn ends_are_reported_with_isolated_express_memory() -> Result<()> {
    let lab = lab_of(express_as("isolated", 2).card_args(["--handshake", "6000"]));
    hurry(&lab)?;
    all_but_processes_end(&lab)
}

fn all_but_processes_end(lab: &Lab) -> Result<()> {
    machines_that_die_stand_still_or_restart(lab)?;
    cards_and_drivers_that_begin_anew(lab)?;
    switches_that_begin_anew(lab)
}

fn machines_that_die_stand_still_or_restart(lab: &Lab) -> Result<()> {
    let mut pair = Pair::open(lab)?;
    ensure!(pair.at(1, "send 700")? == json!({ "sent": 700 }));
    lab.vm(1).kill()?;
    ensure!(pair.at(0, "receive")? == json!({ "bytes": 700, "right": true }));
    host_is_lost(&pair.at(0, "receive")?)?;
    // It is unknown whether a process of the dead machine still sees the pages, so they are not
    // reused.
    ensure!(pair.at(0, "drop")? == json!({ "dropped": true }));
    let held_back = memory(&mut pair.zero, 1)?;
    ensure!(held_back["leaving"] >= 16 && held_back["used"] == 0, "{held_back:?}");
    lab.vm(1).start()?;
    root(lab, 1, HURRY)?;
    all_is_well(lab).context("after a machine's death")?;

    drop(pair);
    let mut pair = Pair::open(lab)?;
    // The machine is in the middle of many messages, and continues to store when it resumes.
    ensure!(pair.at(1, "flood")? == json!({ "flooding": true }));
    lab.vm(1).pause()?;
    let drained = pair.at(0, "drain")?;
    host_is_lost(&drained)?;
    ensure!(drained["right"] == true, "{drained}");
    ensure!(pair.at(0, "drop")? == json!({ "dropped": true }));
    // Other processes get other pages meanwhile.
    let made = pair.zero.ask("make 1 65536")?;
    lab.vm(1).resume()?;
    // The host detects the lapse itself, or its peer reports it. Its stores until then reach no
    // process's memory.
    let told = pair.one.answer()?;
    ensure!(told["error"].as_str().is_some_and(|error| error.contains("the peer is lost")), "{told}");
    let zeros = json!({ "words": 8192, "of": 8192 });
    pair.zero.expect(&format!("count {} 0", made["pages"]), &zeros)?;
    drop(pair);
    all_is_well(lab).context("after a pause")?;

    let mut pair = Pair::open(lab)?;
    lab.vm(1).reboot()?;
    host_is_lost(&pair.at(0, "receive")?)?;
    drop(pair);
    root(lab, 1, HURRY)?;
    all_is_well(lab).context("after a restart")
}

fn cards_and_drivers_that_begin_anew(lab: &Lab) -> Result<()> {
    let each =
        |driver: &str| format!("for f in /sys/bus/pci/drivers/{driver}/0000:*; do echo 1 > $f/reset; done");
    // Resets the card, and then the function that has its memory.
    for driver in ["hamlyn", "hamlyn-express"] {
        let mut pair = Pair::open(lab)?;
        root(lab, 1, &each(driver))?;
        let told = pair.at(1, "receive")?;
        ensure!(told["lost"].is_string() || told["error"].is_string(), "{driver}: {told}");
        host_is_lost(&pair.at(0, "receive")?).context(driver)?;
        drop(pair);
        all_is_well(lab).with_context(|| format!("after a reset of {driver}"))?;
    }
    // Both at once: a function may come back while its card is being reset.
    const BOTH: &str = "cd /sys/bus/pci/drivers; \
        for f in hamlyn/0000:* hamlyn-express/0000:*; do echo 1 > $f/reset & done; wait";
    for _ in 0..5 {
        root(lab, 1, BOTH)?;
        all_is_well(lab).context("after a reset of both at once")?;
    }
    what_is_shown_in_its_stead_is_each_mappings_own(lab, &each("hamlyn-express"))?;
    // The function disappears and returns, and with it all channels that use it. In the isolated
    // form there are several functions.
    const UNBIND: &str = "cd /sys/bus/pci/drivers/hamlyn-express; echo 0000:* > /tmp/functions; \
        for f in 0000:*; do echo $f > unbind; done";
    const BIND: &str =
        "cd /sys/bus/pci/drivers/hamlyn-express; for f in $(cat /tmp/functions); do echo $f > bind; done";
    let mut pair = Pair::open(lab)?;
    root(lab, 1, UNBIND)?;
    host_is_lost(&pair.at(0, "receive")?)?;
    drop(pair);
    let (mut zero, mut one) = (desk(lab, 0)?, desk(lab, 1)?);
    let (_, by_memory) = channel((&mut one, 1), &mut zero, "without")?;
    ensure!(!by_memory, "without the function");
    drop((zero, one));
    root(lab, 1, BIND)?;
    all_is_well(lab).context("after the function was away")?;
    // Pages of the previous module instance are settled.
    let mut pair = Pair::open(lab)?;
    Pair::kill(&mut pair.one)?;
    root(lab, 1, &format!("rmmod hamlyn && insmod /lib/hamlyn.ko && {HURRY}"))?;
    ensure!(pair.at(0, "receive")?["lost"].is_string());
    drop(pair);
    all_is_well(lab).context("after another module")
}

/// After a reset, a process continues with substitute memory for its area and for its view. The two
/// are separate: a store to one is not visible in the other.
fn what_is_shown_in_its_stead_is_each_mappings_own(lab: &Lab, reset: &str) -> Result<()> {
    let (mut zero, mut one) = (desk(lab, 0)?, desk(lab, 1)?);
    let theirs = zero.ask("make 1 4096")?;
    let view = one.ask(&format!("map 0 {} {}", theirs["area"], theirs["key"]))?;
    let area = one.ask("make 0 4096")?;
    one.expect(&format!("fill {} 7", view["pages"]), &json!({ "filled": 4096 }))?;
    zero.expect(&format!("count {} 7", theirs["pages"]), &json!({ "words": 512, "of": 512 }))?;
    root(lab, 1, reset)?;
    one.expect(&format!("count {} 0", view["pages"]), &json!({ "words": 512, "of": 512 }))?;
    one.expect(&format!("fill {} 8", view["pages"]), &json!({ "filled": 4096 }))?;
    one.expect(&format!("count {} 0", area["pages"]), &json!({ "words": 512, "of": 512 }))?;
    zero.expect(&format!("count {} 7", theirs["pages"]), &json!({ "words": 512, "of": 512 }))
}

fn linked(lab: &Lab) -> Result<()> {
    let are = || {
        let ports = &lab.switch_counters()?["ports"];
        Ok(["0", "1"].iter().all(|port| ports[port]["attached"] == true))
    };
    eventually(are, "the cards have their links again")
}

fn switches_that_begin_anew(lab: &Lab) -> Result<()> {
    // Cards keep their memory, which is the same for both.
    let mut pair = Pair::open(lab)?;
    lab.restart_switch()?;
    host_is_lost(&pair.at(0, "receive")?)?;
    drop(pair);
    linked(lab)?;
    all_is_well(lab).context("after another switch")?;
    // A card that starts later has the memory of the other switch, so the two cards share none.
    lab.vm(1).kill()?;
    lab.restart_card(1)?;
    lab.vm(1).start()?;
    linked(lab)?;
    let (mut zero, mut one) = (desk(lab, 0)?, desk(lab, 1)?);
    let ([accepted, made], by_memory) = channel((&mut one, 1), &mut zero, "other")?;
    ensure!(!by_memory, "between memories of two switches");
    one.begin(&format!("echo {accepted} 20"))?;
    zero.expect(&format!("talk {made} 20 7"), &json!({ "talked": 20 }))?;
    ensure!(one.answer()? == json!({ "echoed": 20 }));
    let made = zero.ask("make 1 4096");
    let made = made?;
    one.fails(&format!("map 0 {} {}", made["area"], made["key"]), "No route to host")?;
    (0..2).try_for_each(|vm| log_is_clean(lab, vm))
}
