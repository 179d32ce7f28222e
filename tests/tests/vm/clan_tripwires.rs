//! Tripwires of CLAN cards in real machines: where they are placed, what they fire for, and the
//! programs that use several.

use anyhow::{Result, ensure};
use hamlyn_lab::Run;
use serde_json::{Value, json};

use crate::clan::{aperture, desk, endpoint, made, nothing_is_left};
use crate::clan_ends::count as count_of;
use crate::desk::Desk;
use crate::left::log_is_clean;
use crate::{eventually, shared_of};

/// Checks a burst of 16 KiB, which is one packet: the Tripwire on its first word fires before the
/// one on its last, whatever their numbers.
fn early_word_comes_before_last(here: &mut Desk<Run>, there: &mut Desk<Run>) -> Result<()> {
    let ((own, _), (watcher, _)) = (endpoint(here, "endpoint 0")?, endpoint(there, "endpoint 0")?);
    let (memory, descriptor) = aperture(there, 16384, "write")?;
    let (from, _) = aperture(here, 16384, "none")?;
    let mut watch = |range: &str| -> Result<Value> {
        let tripwire = made(there, &format!("watch {watcher} {memory} {range}"), "tripwire")?;
        there.expect(&format!("watch-event {tripwire}"), &json!({ "registered": true }))?;
        Ok(tripwire)
    };
    let [last, middle, first] = [watch("16376 16384 once")?, watch("8192 8200 once")?, watch("0 8 once")?];
    here.expect(&format!("put {own} {from} {descriptor} 1"), &json!({ "done": 1 }))?;
    for tripwire in [first, middle, last] {
        let event = there.ask("event")?;
        ensure!(event["token"] == tripwire, "not {tripwire}: {event}");
    }
    Ok(())
}

#[test]
fn every_store_wakes_a_process_sleeping_in_driver() -> Result<()> {
    let lab = shared_of("clan")?;
    let said = lab.vm(0).run(["clan-driver", "wakes"])?.finish()?;
    ensure!(said.len() == 1 && said[0]["rounds"] == 500 && said[0]["slept"].as_u64() > Some(0), "{said:?}");
    ensure!(said[0]["events"] == 500, "{said:?}");
    nothing_is_left(&lab, 0)?;
    log_is_clean(&lab, 0)
}

#[test]
fn tripwires_fire_only_for_accesses_they_watch() -> Result<()> {
    let lab = shared_of("clan")?;
    let (mut here, mut there) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (memory, descriptor) = aperture(&mut there, 8192, "both")?;
    let (watcher, _) = endpoint(&mut there, "endpoint 0")?;
    let (own, _) = endpoint(&mut here, "endpoint 0")?;
    let window = made(&mut here, &format!("window {own} {descriptor}"), "window")?;
    // In order: a word; a range that an access touches with a single byte; reads; reads and writes;
    // a word, once.
    let local = ["64 72", "95 4096", "64 72 reads", "64 72 all", "64 72 once"];
    let mut watch = |how: &str| made(&mut there, &format!("watch {watcher} {memory} {how}"), "tripwire");
    let local = local.into_iter().map(&mut watch).collect::<Result<Vec<_>>>()?;
    let remote = ["64 72", "64 72 reads", "64 72 all once", "0 64 all"];
    let mut watch =
        |how: &str| made(&mut here, &format!("watch-remote {own} {descriptor} {how}"), "tripwire");
    let remote = remote.into_iter().map(&mut watch).collect::<Result<Vec<_>>>()?;
    for (line, answer) in [
        (format!("store {window} 64 7"), json!({ "stored": true })),
        (format!("store {window} 72 8"), json!({ "stored": true })),
        (format!("store {window} 88 9"), json!({ "stored": true })),
        (format!("fetch {window} 64"), json!({ "value": 7 })),
        (format!("store {window} 64 7"), json!({ "stored": true })),
        (format!("fetch {window} 72"), json!({ "value": 8 })),
    ] {
        here.expect(&line, &answer)?;
    }
    // The loads were answered, so all earlier accesses are complete.
    for (desk, tripwires, counts) in
        [(&mut there, &local, &[2, 1, 1, 3, 1][..]), (&mut here, &remote, &[2, 1, 1, 0])]
    {
        for (tripwire, count) in tripwires.iter().zip(counts) {
            desk.expect(&format!("count {tripwire}"), &json!({ "count": count }))?;
        }
    }
    // A Tripwire that has fired once can be enabled again. The sender's Tripwire reports the end of
    // a transfer.
    there.expect(&format!("enable {}", local[4]), &json!({ "enabled": true }))?;
    let (from, _) = aperture(&mut here, 8192, "none")?;
    let sent = made(&mut here, &format!("watch-remote {own} {descriptor} 8184 8192"), "tripwire")?;
    here.expect(&format!("put {own} {from} {descriptor} 2"), &json!({ "done": 2 }))?;
    here.expect(&format!("tripped {sent}"), &json!({ "fired": 2 }))?;
    let count = format!("count {}", local[4]);
    eventually(|| Ok(there.ask(&count)? == json!({ "count": 2 })), "once more")?;
    // The paper's action (2.5) is the identifier in the FIFO and an interrupt, whether or not a
    // process sleeps.
    made(&mut there, &format!("watch {watcher} {memory} 128 136 interrupting"), "tripwire")?;
    let before = [count_of(&lab, 1, "fifo_records")?, count_of(&lab, 1, "interrupts")?];
    here.expect(&format!("store {window} 120 1"), &json!({ "stored": true }))?;
    here.expect(&format!("fetch {window} 120"), &json!({ "value": 1 }))?;
    ensure!(
        [count_of(&lab, 1, "fifo_records")?, count_of(&lab, 1, "interrupts")?] == before,
        "no thread sleeps"
    );
    // Each identifier gets a record, although both belong to one endpoint and fire in one packet.
    made(&mut there, &format!("watch {watcher} {memory} 136 144 interrupting"), "tripwire")?;
    here.expect(&format!("put {own} {from} {descriptor} 1"), &json!({ "done": 1 }))?;
    let told = || {
        Ok(count_of(&lab, 1, "fifo_records")? >= before[0] + 2
            && count_of(&lab, 1, "interrupts")? > before[1])
    };
    eventually(told, "both are in the FIFO, which interrupts")?;
    early_word_comes_before_last(&mut here, &mut there)?;
    // Tripwires of an ended process are removed.
    drop(there);
    nothing_is_left(&lab, 1)?;
    here.fails(&format!("fetch {window} 64"), "refused")?;
    drop(here);
    nothing_is_left(&lab, 0)?;

    // The programs of section 4.3.
    let mut receiver = lab.vm(1).run(["clan-driver", "receive"])?;
    receiver.answer()?;
    let sent = lab.vm(0).run(["clan-driver", "send", "1"])?.finish();
    let received = receiver.finish()?;
    ensure!(sent? == [json!({ "sent": true })]);
    ensure!(received[0]["early"] == 5 && received[0]["stream"] == 50_000, "{received:?}");
    ensure!(received[0]["apart"] == 3, "each header was there before its body: {received:?}");
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}
