//! A program's own memory as send and receive buffers (sections 2 and 3.2).

use anyhow::{Result, ensure};
use hamlyn_lab::{Lab, Run, Snoop};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::shrimp::{all_were_seen, arrives, desk, lab_with, nothing_is_left, sees_stores};
use crate::{eventually, text};

/// Allocates `length` zeroed bytes of a desk's own memory. Returns their number.
fn memory(desk: &mut Desk<Run>, length: usize) -> Result<Value> {
    let made = desk.ask(&format!("memory {length}"))?;
    ensure!(made["memory"].is_u64(), "{made}");
    Ok(made["memory"].clone())
}

/// Exports a part of the memory, given as a start and a length, to all hosts. Returns its number
/// and its handle.
fn export_own(desk: &mut Desk<Run>, memory: &Value, part: &str) -> Result<(Value, String)> {
    let made = desk.ask(&format!("export-own {memory} {part} 0 1 2"))?;
    ensure!(made["export"].is_u64(), "{made}");
    Ok((made["export"].clone(), text(&made, "handle")))
}

/// Maps a part of the memory to the start of an export.
fn map_own(desk: &mut Desk<Run>, memory: &Value, part: &str, handle: &str, mode: &str) -> Result<Value> {
    let made = desk.ask(&format!("map-own {memory} {part} {handle} 0 {mode}"))?;
    ensure!(made["mapping"].is_u64(), "{made}");
    Ok(made["mapping"].clone())
}

/// Checks arrays at both ends that begin inside a page, in each mode. The rest of their pages is
/// unchanged.
fn arrays_are_both_ends(lab: &Lab) -> Result<()> {
    let (mut receiver, mut sender) = (desk(lab, 0)?, desk(lab, 1)?);
    let (there, here) = (memory(&mut receiver, 12_288)?, memory(&mut sender, 12_288)?);
    let (buffer, handle) = export_own(&mut receiver, &there, "1000 9000")?;
    let refused = format!("map-own {here} 1004 8996 {handle} 0 single");
    sender.fails(&refused, "memory at byte 1004 of a page cannot be mapped to byte 1000")?;
    sender.fails(&format!("map-own {here} 1000 3000 {handle} 0 single"), "no third part")?;
    receiver.fails(&format!("export-own {there} 0 1001 0 1"), "exported already")?;
    for (seed, mode) in [(1, "single"), (2, "blocked"), (3, "deliberate")] {
        let mapping = map_own(&mut sender, &here, "1000 9000", &handle, mode)?;
        sender.expect(&format!("fill {mapping} 0 9000 {seed}"), &json!({ "filled": 9000 }))?;
        if mode == "deliberate" {
            sender.expect(&format!("send {mapping} 0 9000"), &json!({ "sent": true }))?;
        }
        let check = format!("check {buffer} 0 9000 {seed}");
        eventually(|| Ok(receiver.ask(&check)?["arrived"] == true), &format!("it arrives by {mode}"))?;
        sender.expect(&format!("unmap {mapping}"), &json!({ "unmapped": true }))?;
    }
    sender.expect(&format!("take-back {here} 996"), &json!({ "value": 0 }))?;
    receiver.fails(&format!("take-back {there} 996"), "still uses the memory")?;
    receiver.expect(&format!("unexport {buffer}"), &json!({ "unexported": true }))?;
    receiver.expect(&format!("take-back {there} 10000"), &json!({ "value": 0 }))
}

/// Checks two send buffers in one page, each to another host and with its own mode.
fn page_has_two_owners(lab: &Lab) -> Result<()> {
    let (mut one, mut other, mut sender) = (desk(lab, 0)?, desk(lab, 2)?, desk(lab, 1)?);
    let (there, beside) = (memory(&mut one, 4096)?, memory(&mut other, 4096)?);
    let (low_buffer, low_handle) = export_own(&mut one, &there, "0 4096")?;
    let (high_buffer, high_handle) = export_own(&mut other, &beside, "2000 2096")?;
    let here = memory(&mut sender, 4096)?;
    let low = map_own(&mut sender, &here, "0 2000", &low_handle, "single")?;
    let high = map_own(&mut sender, &here, "2000 2096", &high_handle, "single")?;
    sender.fails(&format!("map-own {here} 0 2000 {low_handle} 0 single"), "mapped out already")?;
    // The last word of the first buffer is next to the first word of the second.
    for (mapping, offset, value) in [(&low, 1996, 11), (&high, 0, 22)] {
        sender.expect(&format!("store {mapping} {offset} {value}"), &json!({ "stored": true }))?;
    }
    arrives(&mut one, &low_buffer, 1996, 11)?;
    arrives(&mut other, &high_buffer, 0, 22)?;
    one.expect(&format!("load {low_buffer} 2000"), &json!({ "value": 0 }))?;
    // Each part has its own mode.
    sender.expect(&format!("mode {high} deliberate"), &json!({ "mode": "deliberate" }))?;
    sender.expect(&format!("store {high} 0 33"), &json!({ "stored": true }))?;
    sender.expect(&format!("store {low} 1996 44"), &json!({ "stored": true }))?;
    arrives(&mut one, &low_buffer, 1996, 44)?;
    other.expect(&format!("load {high_buffer} 0"), &json!({ "value": 22 }))?;
    sender.expect(&format!("send {high} 0 4"), &json!({ "sent": true }))?;
    arrives(&mut other, &high_buffer, 0, 33)?;
    // One mapping ends, and the other continues.
    sender.expect(&format!("unmap {low}"), &json!({ "unmapped": true }))?;
    sender.expect(&format!("mode {high} single"), &json!({ "mode": "single" }))?;
    sender.expect(&format!("store {high} 0 55"), &json!({ "stored": true }))?;
    arrives(&mut other, &high_buffer, 0, 55)
}

/// Checks more memory than one export of the driver can have. Each end has two exports, which are
/// not split at a page boundary.
fn more_than_4_mib(lab: &Lab) -> Result<()> {
    const LENGTH: usize = 5_000_000;
    let (mut receiver, mut sender) = (desk(lab, 0)?, desk(lab, 1)?);
    let (there, here) = (memory(&mut receiver, LENGTH + 4096)?, memory(&mut sender, LENGTH + 4096)?);
    let (buffer, handle) = export_own(&mut receiver, &there, &format!("400 {LENGTH}"))?;
    let mapping = map_own(&mut sender, &here, &format!("400 {LENGTH}"), &handle, "deliberate")?;
    sender.expect(&format!("fill {mapping} 0 {LENGTH} 7"), &json!({ "filled": LENGTH }))?;
    sender.expect(&format!("send {mapping} 0 {LENGTH}"), &json!({ "sent": true }))?;
    let check = format!("check {buffer} 0 {LENGTH} 7");
    eventually(|| Ok(receiver.ask(&check)?["arrived"] == true), "all of it arrives")?;
    // A process sleeps until a word arrives in the second export. It would sleep longer than the
    // test waits, so a lost wake-up is detected.
    sender.expect(&format!("mode {mapping} single"), &json!({ "mode": "single" }))?;
    let place = 4_900_000;
    let mut now = receiver.ask(&format!("load {buffer} {place}"))?["value"].clone();
    for value in 77..127 {
        receiver.begin(&format!("wait {buffer} {place} {now} 3600"))?;
        sender.expect(&format!("store {mapping} {place} {value}"), &json!({ "stored": true }))?;
        let slept = receiver.answer()?;
        ensure!(slept == json!({ "value": value }), "{slept}");
        now = value.into();
    }
    // Each part is told of its end.
    receiver.expect(&format!("unexport {buffer}"), &json!({ "unexported": true }))?;
    let (state, taken) = (format!("state {mapping}"), json!({ "state": "taken back" }));
    eventually(|| Ok(sender.ask(&state)? == taken), "the mapper is told")
}

#[test]
fn own_memory_is_send_and_receive_buffer() -> Result<()> {
    let lab = lab_with(3, Snoop::Yes)?;
    let seen = sees_stores(&lab, 1)?;
    arrays_are_both_ends(&lab)?;
    page_has_two_owners(&lab)?;
    more_than_4_mib(&lab)?;
    all_were_seen(&lab, 1)?;
    drop(seen);
    nothing_is_left(&lab, 0)?;
    nothing_is_left(&lab, 2)
}

#[test]
fn own_memory_is_sent_by_the_window() -> Result<()> {
    let lab = lab_with(3, Snoop::No)?;
    arrays_are_both_ends(&lab)?;
    page_has_two_owners(&lab)?;
    more_than_4_mib(&lab)
}
