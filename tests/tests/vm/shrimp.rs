//! SHRIMP cards in real machines: stores in one machine arrive in the other, at the right place
//! only.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hamlyn::FIND_TIMEOUT;
use hamlyn_abi::shrimp::command::SHRIMP_MAX_ENTRIES;
use hamlyn_host::catalogue;
use hamlyn_lab::{Exit, Lab, Run, Snoop};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::left::nothing_is_held;
use crate::{Turn, eventually, lab_of, shared_of, text};

const MODES: [&str; 3] = ["single", "blocked", "deliberate"];

pub(crate) fn shrimp_lab(vms: usize) -> Result<Turn> {
    lab_with(vms, Snoop::Auto)
}

pub(crate) fn lab_with(vms: usize, snoop: Snoop) -> Result<Turn> {
    Ok(lab_of(Lab::builder().models(&[catalogue::find("shrimp")?]).vms(vms).snoop(snoop)))
}

/// Checks that the card saw no store and that some came by the window.
fn all_went_by_the_window(lab: &Lab, card: usize) -> Result<()> {
    let [seen, by_window] = ["stores_seen", "stores_to_window"].map(|name| counter(lab, card, name));
    let (seen, by_window) = (seen?, by_window?);
    ensure!(seen == 0 && by_window > 0, "{seen} seen, {by_window} by the window");
    Ok(())
}

/// Checks that the card saw stores and that none came by the window.
pub(crate) fn all_were_seen(lab: &Lab, card: usize) -> Result<()> {
    let [seen, by_window] = ["stores_seen", "stores_to_window"].map(|name| counter(lab, card, name));
    let (seen, by_window) = (seen?, by_window?);
    ensure!(seen > 0 && by_window == 0, "{seen} seen, {by_window} by the window");
    Ok(())
}

/// Makes a machine's card see the machine's stores, for as long as the returned process has its
/// mapping.
pub(crate) fn sees_stores(lab: &Lab, vm: usize) -> Result<Desk<Run>> {
    let mut keeper = desk(lab, vm)?;
    let (_, handle) = export(&mut keeper, 4096)?;
    map(&mut keeper, &handle, "0 4096", "single")?;
    eventually(|| Ok(keeper.ask("info")?["snoops"] == true), "the card sees stores")?;
    Ok(keeper)
}

pub(crate) fn counter(lab: &Lab, card: usize, name: &str) -> Result<u64> {
    lab.card_counters(card)?["card"][name].as_u64().with_context(|| format!("no counter {name}"))
}

pub(crate) fn desk(lab: &Lab, vm: usize) -> Result<Desk<Run>> {
    Ok(Desk(lab.vm(vm).run(["shrimp", "desk"])?))
}

/// Exports a buffer of `desk` that hosts 0 to 2 may map. Returns its number and its handle.
pub(crate) fn export(desk: &mut Desk<Run>, length: usize) -> Result<(Value, String)> {
    let made = desk.ask(&format!("export {length} 0 1 2"))?;
    Ok((made["export"].clone(), text(&made, "handle")))
}

pub(crate) fn map(desk: &mut Desk<Run>, handle: &str, place: &str, mode: &str) -> Result<Value> {
    let made = desk.ask(&format!("map {handle} {place} {mode}"))?;
    ensure!(made["mapping"].is_u64(), "{made}");
    Ok(made["mapping"].clone())
}

/// Waits for a value of a word of an export.
pub(crate) fn arrives(desk: &mut Desk<Run>, export: &Value, offset: usize, value: u32) -> Result<()> {
    let load = format!("load {export} {offset}");
    eventually(|| Ok(desk.ask(&load)? == json!({ "value": value })), &format!("{value} at {offset}"))
}

/// Checks that both hosts still work, with a new mapping in each direction.
pub(crate) fn both_are_usable(lab: &Lab) -> Result<()> {
    let (mut one, mut two) = (desk(lab, 0)?, desk(lab, 1)?);
    for (from, to) in [(0, 1), (1, 0)] {
        let (sender, receiver) = if from == 0 { (&mut one, &mut two) } else { (&mut two, &mut one) };
        let (buffer, handle) = export(receiver, 4096)?;
        let mapping = map(sender, &handle, "0 4096", "single")?;
        sender.expect(&format!("store {mapping} 8 77"), &json!({ "stored": true }))?;
        arrives(receiver, &buffer, 8, 77).with_context(|| format!("from {from} to {to}"))?;
    }
    Ok(())
}

/// Waits until a machine's driver holds no objects of processes.
pub(crate) fn nothing_is_left(lab: &Lab, vm: usize) -> Result<()> {
    nothing_is_held(lab, vm, "shrimp")
}

/// Returns the output of two programs that succeed. If one fails, the other may report the cause,
/// so both errors are kept.
fn both(one: Run, other: Run) -> Result<[Vec<Value>; 2]> {
    match [one, other].map(|mut run| run.finish()) {
        [Ok(one), Ok(other)] => Ok([one, other]),
        [Err(one), Err(other)] => bail!("{one:#}\nand {other:#}"),
        [Err(error), _] | [_, Err(error)] => Err(error),
    }
}

#[test]
fn messages_and_pages_arrive_in_the_other_machine() -> Result<()> {
    let lab = shared_of("shrimp")?;
    let tested = lab.vm(0).run_as(0, ["shrimp", "self-test"])?.finish()?;
    ensure!(tested.len() == 1 && tested[0]["passed"] == true, "{tested:?}");
    for mode in ["single", "blocked"] {
        let mut receiver = lab.vm(0).run(["shrimp", "hello", "receive"])?;
        receiver.answer()?;
        // The receiver's host is silent for a moment, and the sender asks again.
        let held = (mode == "single").then(|| lab.hold_card(0)).transpose()?;
        let sender = lab.vm(1).run(["shrimp", "hello", "send", "--mode", mode])?;
        if held.is_some() {
            std::thread::sleep(FIND_TIMEOUT + Duration::from_secs(1));
        }
        drop(held);
        let [sent, said] = both(sender, receiver)?;
        let expected = [
            json!({ "from": 1, "message": "hello from host 1" }),
            json!({ "received": 20_000, "verified": true }),
        ];
        ensure!(said == expected, "{said:?}");
        ensure!(sent == [json!({ "sent": 20_000, "mode": mode, "answer": "thank you" })], "{sent:?}");
    }
    let mut server = lab.vm(0).run(["shrimp", "measure", "serve", "--count", "100", "--updates", "2"])?;
    server.answer()?;
    let asking = lab.vm(1).run(["shrimp", "measure", "ask", "--count", "100", "--updates", "2"])?;
    let [asked, _] = both(asking, server)?;
    ensure!(asked.len() == 1 && asked[0]["verified"] == true && asked[0]["sent"] == 2 << 20, "{asked:?}");
    nothing_is_left(&lab, 0)?;
    nothing_is_left(&lab, 1)
}

#[test]
fn stores_arrive_at_their_place_in_each_mode() -> Result<()> {
    let lab = lab_with(2, Snoop::Yes)?;
    let _seen = sees_stores(&lab, 1)?;
    stores_arrive(&lab)?;
    all_were_seen(&lab, 1)
}

#[test]
fn stores_through_the_window_arrive() -> Result<()> {
    let lab = lab_with(2, Snoop::No)?;
    stores_arrive(&lab)?;
    all_went_by_the_window(&lab, 1)?;
    items_come_in_order(&lab)
}

fn stores_arrive(lab: &Lab) -> Result<()> {
    let (mut receiver, mut sender) = (desk(lab, 0)?, desk(lab, 1)?);
    let (buffer, handle) = export(&mut receiver, 20_000)?;
    let mut seed = 0;
    let mut fill = |sender: &mut Desk<Run>, receiver: &mut Desk<Run>, mapping: &Value, mode: &str| {
        seed += 1;
        sender.expect(&format!("fill {mapping} 4 8192 {seed}"), &json!({ "filled": 8192 }))?;
        if mode == "deliberate" {
            let early = receiver.ask(&format!("check {buffer} 5004 8192 {seed}"))?;
            ensure!(early["arrived"] == false, "nothing is sent before it is said so");
            sender.expect(&format!("send {mapping} 4 8192"), &json!({ "sent": true }))?;
        } else {
            sender.fails(&format!("send {mapping} 4 8192"), "deliberate update")?;
        }
        let check = format!("check {buffer} 5004 8192 {seed}");
        eventually(|| Ok(receiver.ask(&check)?["arrived"] == true), &format!("it arrives by {mode}"))
    };
    // The mapping begins in the middle of a page, and ends in another.
    let one = map(&mut sender, &handle, "5000 9000", "single")?;
    for mode in MODES {
        let other = map(&mut sender, &handle, "5000 9000", mode)?;
        fill(&mut sender, &mut receiver, &other, mode)?;
        // The same page by page, without the operating system.
        sender.expect(&format!("mode {one} {mode}"), &json!({ "mode": mode }))?;
        fill(&mut sender, &mut receiver, &one, mode)?;
    }
    // Nothing is stored outside the mapping.
    for (offset, length) in [(0, 5000), (14_000, 6000)] {
        for word in (offset..offset + length).step_by(1000) {
            receiver.expect(&format!("load {buffer} {word}"), &json!({ "value": 0 }))?;
        }
    }
    // A process sees its own stores at once.
    sender.expect(&format!("mode {one} single"), &json!({ "mode": "single" }))?;
    for value in 1..20 {
        sender.expect(&format!("store {one} 0 {value}"), &json!({ "stored": true }))?;
        sender.expect(&format!("own {one} 0"), &json!({ "value": value }))?;
    }
    let slept = receiver.ask(&format!("wait {buffer} 5000 0"))?;
    ensure!(slept["value"].as_u64().is_some_and(|value| value > 0), "{slept}");
    arrives(&mut receiver, &buffer, 5000, 19)?;
    receiver.fails(&format!("wait {buffer} 5000 19 1"), "no other value of a word within 1s")
}

/// Uses a card without options. Its engine reads a page in pieces, and a program sees the remaining
/// count between two of them.
#[test]
fn remaining_words_are_visible_during_a_transfer() -> Result<()> {
    let lab = shared_of("shrimp")?;
    let (mut receiver, mut sender) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (buffer, handle) = export(&mut receiver, 4096)?;
    let mapping = map(&mut sender, &handle, "0 4096", "deliberate")?;
    sender.expect(&format!("fill {mapping} 0 4096 4"), &json!({ "filled": 4096 }))?;
    let seen = || {
        let answer = sender.ask(&format!("watch {mapping} 200"))?;
        let left = answer["left"].as_array().with_context(|| answer.to_string())?;
        ensure!(left.iter().all(|left| [256, 512, 768].map(Value::from).contains(left)), "{answer}");
        Ok(!left.is_empty())
    };
    eventually(seen, "a transfer is seen under way")?;
    receiver.expect(&format!("check {buffer} 0 4096 4"), &json!({ "arrived": true }))
}

#[test]
fn refused_map_reports_why_and_changes_nothing() -> Result<()> {
    let lab = shrimp_lab(2)?;
    let (mut receiver, mut other) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (buffer, handle) = export(&mut receiver, 8192)?;
    let forged = text(&other.ask(&format!("forge {handle} 1234"))?, "handle");
    other.fails(&format!("map {forged} 0 4096 single"), "host 0 refused access to export")?;
    other.fails(
        &format!("map {handle} 4096 4097 single"),
        "past the end of the receive buffer (limit 8192)",
    )?;
    let closed = receiver.ask("export 4096 0")?;
    let for_itself = text(&closed, "handle");
    other.fails(&format!("map {for_itself} 0 4096 single"), "host 0 refused access")?;
    // Its own host may map it.
    let mapping = map(&mut receiver, &for_itself, "0 4096", "single")?;
    receiver.expect(&format!("store {mapping} 0 5"), &json!({ "stored": true }))?;
    arrives(&mut receiver, &closed["export"], 0, 5)?;
    ensure!(counter(&lab, 0, "packets_deposited")? > 0 && counter(&lab, 0, "not_mapped_in")? == 0);
    // The right key still works.
    let mapping = map(&mut other, &handle, "0 8192", "single")?;
    other.expect(&format!("store {mapping} 8188 6"), &json!({ "stored": true }))?;
    arrives(&mut receiver, &buffer, 8188, 6)
}

#[test]
fn mapper_is_told_when_a_buffer_is_revoked() -> Result<()> {
    let lab = shared_of("shrimp")?;
    let (mut receiver, mut sender) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (buffer, handle) = export(&mut receiver, 8192)?;
    let mapping = map(&mut sender, &handle, "0 8192", "single")?;
    let state = format!("state {mapping}");
    sender.expect(&state, &json!({ "state": "mapped" }))?;
    receiver.expect(&format!("unexport {buffer}"), &json!({ "unexported": true }))?;
    let taken = json!({ "state": "taken back" });
    eventually(|| Ok(sender.ask(&state)? == taken), "the mapper is told")?;
    // The mapper may still store, but the stores go nowhere. An explicit send reports an error.
    sender.expect(&format!("store {mapping} 0 5"), &json!({ "stored": true }))?;
    sender.expect(&format!("mode {mapping} deliberate"), &json!({ "mode": "deliberate" }))?;
    sender.fails(&format!("send {mapping} 0 8192"), "was taken back")?;
    sender.expect(&format!("unmap {mapping}"), &json!({ "unmapped": true }))?;
    sender.fails(&format!("map {handle} 0 8192 single"), "refused access")?;
    both_are_usable(&lab)
}

/// One command sets the entries of many pages, so the card's lock is held for few commands, however
/// large a buffer is.
#[test]
fn few_commands_set_entries_of_many_pages() -> Result<()> {
    const PAGES: u64 = 1024;
    let lab = shared_of("shrimp")?;
    let (mut receiver, mut sender) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (buffer, handle) = export(&mut receiver, 4096 * PAGES as usize)?;
    for card in [1, 0] {
        let mapping = map(&mut sender, &handle, &format!("0 {}", 4096 * PAGES), "single")?;
        let before = counter(&lab, card, "commands")?;
        match card {
            1 => sender.expect(&format!("unmap {mapping}"), &json!({ "unmapped": true }))?,
            _ => receiver.expect(&format!("unexport {buffer}"), &json!({ "unexported": true }))?,
        }
        let taken = counter(&lab, card, "commands")? - before;
        let needed = PAGES.div_ceil(u64::from(SHRIMP_MAX_ENTRIES));
        ensure!(
            (needed..needed + 10).contains(&taken),
            "card {card}: {taken} commands, {needed} set all entries"
        );
    }
    Ok(())
}

#[test]
fn process_killed_at_either_end_affects_no_others() -> Result<()> {
    let lab = shared_of("shrimp")?;
    for killed in ["mapper", "exporter"] {
        let (mut receiver, mut sender, mut bystander) = (desk(&lab, 0)?, desk(&lab, 1)?, desk(&lab, 1)?);
        let (buffer, handle) = export(&mut receiver, 8192)?;
        let flooding = map(&mut sender, &handle, "0 4096", "single")?;
        let mapping = map(&mut bystander, &handle, "4096 4096", "single")?;
        sender.expect(&format!("flood {flooding}"), &json!({ "flooding": true }))?;
        eventually(|| Ok(receiver.ask(&format!("load {buffer} 0"))? != json!({ "value": 0 })), "the flood")?;
        let end = if killed == "mapper" { &mut sender } else { &mut receiver };
        end.0.kill(9)?;
        assert_eq!(end.0.wait()?, Exit::Signal(9));
        if killed == "mapper" {
            // Another process of the same host is not affected.
            bystander.expect(&format!("store {mapping} 0 9"), &json!({ "stored": true }))?;
            arrives(&mut receiver, &buffer, 4096, 9)?;
        } else {
            let state = format!("state {mapping}");
            let taken = json!({ "state": "taken back" });
            eventually(|| Ok(bystander.ask(&state)? == taken), "the mapper is told")?;
            sender.0.kill(9)?;
            sender.0.wait()?;
        }
        both_are_usable(&lab)?;
    }
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn mappings_to_a_dead_machine_become_lost() -> Result<()> {
    let lab = shrimp_lab(3)?;
    let (mut receiver, mut sender) = (desk(&lab, 2)?, desk(&lab, 1)?);
    let (_, handle) = export(&mut receiver, 4096)?;
    let mapping = map(&mut sender, &handle, "0 4096", "single")?;
    lab.vm(2).kill()?;
    let (state, lost) = (format!("state {mapping}"), json!({ "state": "lost" }));
    eventually(|| Ok(sender.ask(&state)? == lost), "the mapper is told")?;
    sender.fails(&format!("map {handle} 0 4096 single"), "host 2 is not there, or is lost")?;
    both_are_usable(&lab)
}

#[test]
fn items_of_a_queue_come_before_their_count() -> Result<()> {
    let lab = lab_with(2, Snoop::Yes)?;
    let _seen = sees_stores(&lab, 1)?;
    items_come_in_order(&lab)?;
    all_were_seen(&lab, 1)
}

fn items_come_in_order(lab: &Lab) -> Result<()> {
    for more in [&[][..], &["--blocked"]] {
        let words = |what| [&["shrimp", "queue", what, "--count", "1500"], more].concat();
        let mut consumer = lab.vm(0).run(words("consume"))?;
        consumer.answer()?;
        let made = lab.vm(1).run(words("produce"))?.finish()?;
        ensure!(made.len() == 1 && made[0]["produced"] == 1500, "{made:?}");
        let took = consumer.finish()?;
        ensure!(took == [json!({ "taken": 1500, "in_order": true })], "{took:?}");
    }
    ensure!(counter(lab, 0, "bytes_deposited")? >= 2 * 1500 * 44);
    Ok(())
}

#[test]
fn shared_memory_lock_excludes_the_other_host() -> Result<()> {
    let lab = lab_with(2, Snoop::Yes)?;
    let _keepers = [sees_stores(&lab, 0)?, sees_stores(&lab, 1)?];
    for more in [&[][..], &["--blocked"]] {
        let words = |what| [&["shrimp", "lock", what, "--count", "300"], more].concat();
        let mut first = lab.vm(0).run(words("first"))?;
        first.answer()?;
        let second = lab.vm(1).run(words("second"))?.finish()?;
        let counted = [json!({ "entered": 300, "counted": 600 })];
        ensure!(second == counted, "{second:?}");
        let first = first.finish()?;
        ensure!(first == counted, "{first:?}");
    }
    [0, 1].into_iter().try_for_each(|card| all_were_seen(&lab, card))
}
