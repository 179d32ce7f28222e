//! CLAN cards in real machines: access to the other machine's memory by stores, loads and DMA;
//! Tripwires, messages and event queues.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hamlyn_host::catalogue;
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::left::{log_is_clean, nothing_is_held};
use crate::{Turn, eventually, lab_of, shared_of, text};

pub(crate) fn clan_lab(vms: usize) -> Result<Turn> {
    Ok(lab_of(Lab::builder().models(&[catalogue::find("clan")?]).vms(vms)))
}

pub(crate) fn desk(lab: &Lab, vm: usize) -> Result<Desk<Run>> {
    Ok(Desk(lab.vm(vm).run(["clan-driver", "desk"])?))
}

/// Runs a command and returns the number of the object that the desk made.
pub(crate) fn made(desk: &mut Desk<Run>, line: &str, what: &str) -> Result<Value> {
    let answer = desk.ask(line)?;
    ensure!(answer[what].is_u64(), "{line}: {answer}");
    Ok(answer[what].clone())
}

/// Creates an aperture. Returns its number and its descriptor.
pub(crate) fn aperture(desk: &mut Desk<Run>, length: usize, rights: &str) -> Result<(Value, String)> {
    let answer = desk.ask(&format!("aperture {length} {rights}"))?;
    ensure!(answer["aperture"].is_u64(), "{answer}");
    Ok((answer["aperture"].clone(), text(&answer, "descriptor")))
}

/// Creates an endpoint. Returns its number and its address.
pub(crate) fn endpoint(desk: &mut Desk<Run>, line: &str) -> Result<(Value, String)> {
    let answer = desk.ask(line)?;
    ensure!(answer["endpoint"].is_u64(), "{answer}");
    Ok((answer["endpoint"].clone(), text(&answer, "address")))
}

/// Reads once from another machine, and returns the answer. The card soon gives up a read, to which
/// the other may answer late on a loaded host, so a read without an answer is repeated.
pub(crate) fn answered(desk: &mut Desk<Run>, line: &str) -> Result<Value> {
    let mut answer = Value::Null;
    let is_late = |answer: &Value| answer["error"].as_str().is_some_and(|why| why.contains("not answered"));
    let is_answered = || {
        answer = desk.ask(line)?;
        Ok(!is_late(&answer))
    };
    eventually(is_answered, line)?;
    Ok(answer)
}

/// Waits until a machine's driver holds no objects of processes.
pub(crate) fn nothing_is_left(lab: &Lab, vm: usize) -> Result<()> {
    nothing_is_held(lab, vm, "clan")
}

#[test]
fn driver_passes_self_test_and_refuses_forbidden_calls() -> Result<()> {
    let lab = shared_of("clan")?;
    let tested = lab.vm(0).run_as(0, ["clan-driver", "self-test"])?.finish()?;
    ensure!(tested == [json!({ "passed": true })], "{tested:?}");
    let said = lab.vm(0).run(["clan-driver", "trespass"])?.finish()?;
    ensure!(said.len() == 1 && said[0]["succeeded"] == json!([]), "{said:?}");
    ensure!(said[0]["refused"].as_u64() > Some(50), "{said:?}");
    nothing_is_left(&lab, 0)?;
    log_is_clean(&lab, 0)
}

#[test]
fn stores_loads_and_dma_reach_remote_memory() -> Result<()> {
    let lab = shared_of("clan")?;
    let (mut one, mut two) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (target, descriptor) = aperture(&mut one, 12_000, "both")?;
    let (watcher, _) = endpoint(&mut one, "endpoint 0")?;
    let (from, _) = endpoint(&mut two, "endpoint 0")?;
    // A store that wakes a sleeping process there, and a load that reads it back.
    let tripwire = made(&mut one, &format!("watch {watcher} {target} 64 72"), "tripwire")?;
    let window = made(&mut two, &format!("window {from} {descriptor}"), "window")?;
    one.begin(&format!("tripped {tripwire}"))?;
    std::thread::sleep(Duration::from_millis(300));
    two.expect(&format!("store {window} 56 5"), &json!({ "stored": true }))?;
    two.expect(&format!("store {window} 64 77"), &json!({ "stored": true }))?;
    ensure!(one.answer()? == json!({ "fired": 1 }));
    one.expect(&format!("own {target} 64"), &json!({ "value": 77 }))?;
    two.expect(&format!("fetch {window} 56"), &json!({ "value": 5 }))?;
    two.fails(&format!("store {window} 12000 1"), "12000")?;
    // DMA writes and reads, by the card and by the driver.
    let mut refused = Vec::new();
    for (seed, line) in [(3, "endpoint 0"), (4, "endpoint-of-driver 0")] {
        let (by, _) = endpoint(&mut two, line)?;
        let (out, _) = aperture(&mut two, 12_000, "none")?;
        let (back, _) = aperture(&mut two, 12_000, "none")?;
        two.expect(&format!("fill {out} {seed}"), &json!({ "filled": 12_000 }))?;
        two.expect(&format!("put {by} {out} {descriptor} 100"), &json!({ "done": 100 }))
            .with_context(|| line.to_owned())?;
        let check = format!("check {target} {seed}");
        eventually(|| Ok(one.ask(&check)? == json!({ "arrived": true })), "all of it arrives")?;
        two.expect(&format!("get {by} {back} {descriptor} 20"), &json!({ "done": 20 }))?;
        two.expect(&format!("check {back} {seed}"), &json!({ "arrived": true }))?;
        let window = made(&mut two, &format!("window {by} {descriptor}"), "window")?;
        refused.push((by, out, back, window));
    }
    // A closed aperture can no longer be reached, and the accessing process gets a fault.
    one.expect(&format!("close-aperture {target}"), &json!({ "closed": true }))?;
    two.fails(&format!("fetch {window} 56"), "refused")?;
    two.expect(&format!("store {window} 56 6"), &json!({ "stored": true }))?;
    let fault = two.ask(&format!("fault {from}"))?;
    ensure!(text(&fault, "fault").contains("refused"), "{fault}");
    // The fault of a refused write comes after the write's completion. The refused load that
    // follows still fails.
    for (by, out, back, window) in refused {
        two.expect(&format!("put {by} {out} {descriptor} 1"), &json!({ "done": 1 }))?;
        let fault = two.ask(&format!("fault {by}"))?;
        ensure!(text(&fault, "fault").contains("refused"), "{fault}");
        two.fails(&format!("fetch {window} 56"), "refused")?;
        two.fails(&format!("get {by} {back} {descriptor} 1"), "refused")?;
    }
    drop((one, two));
    // The driver's wake-up thread uses SCHED_OTHER, so it does not starve other threads.
    let threads =
        lab.vm(0).run_as(0, ["sh", "-c", "cat /proc/[0-9]*/stat | grep -e '-clan0-1)'"])?.finish_text()?;
    let policy = |line: &String| {
        line.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(38)).map(str::to_owned)
    };
    ensure!(threads.iter().map(policy).eq([Some("0".to_owned())]), "SCHED_OTHER is 0: {threads:?}");
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn kernels_connect_by_name_over_apertures_and_tripwire() -> Result<()> {
    let lab = shared_of("clan")?;
    let (mut server, mut client) = (desk(&lab, 1)?, desk(&lab, 0)?);
    server.expect("listen svc", &json!({ "listening": "svc" }))?;
    client.begin("reach 1 svc question")?;
    server.expect("admit svc answer", &json!({ "admitted": 0, "host": 0, "private": "question" }))?;
    let made = client.answer()?;
    ensure!(made == json!({ "reached": 0, "private": "answer" }), "{made}");
    client.expect("reach 1 absent please", &json!({ "refused": "no_name" }))?;
    // Far more connections than fit into the message ring at once: acknowledged messages must free
    // their places.
    for number in 1..40 {
        client.begin("reach 1 svc more")?;
        server.expect("admit svc again", &json!({ "admitted": number, "host": 0, "private": "more" }))?;
        client.answer()?;
    }
    // A killed client ends its connection, and the server is told.
    server.begin("over 39")?;
    client.0.kill(9)?;
    let over = server.answer()?;
    ensure!(over == json!({ "over": "died" }), "{over}");
    for vm in [0, 1] {
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn endpoints_send_messages_and_report_lost_peers() -> Result<()> {
    let lab = shared_of("clan")?;
    let (mut one, mut two) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (listener, at) = endpoint(&mut one, "endpoint 2000")?;
    ensure!(at == "0:2000");
    one.fails("endpoint 2000", "busy")?;
    one.fails("endpoint 80", "denied")?;
    let (asking, from) = endpoint(&mut two, "endpoint 0")?;
    one.begin(&format!("message {listener}"))?;
    two.expect(&format!("send {asking} {at} hello"), &json!({ "sent": true }))?;
    let came = json!({ "from": from, "kind": "Data", "text": "hello" });
    let said = one.answer()?;
    ensure!(said == came, "{said}");
    // No endpoint at the address, and then a full queue.
    two.expect(&format!("send {asking} 0:2001 lost"), &json!({ "sent": true }))?;
    let back = json!({ "from": "0:2001", "kind": "Undelivered", "text": "lost" });
    two.expect(&format!("message {asking}"), &back)?;
    for number in 0..25 {
        two.expect(&format!("send {asking} {at} {number}"), &json!({ "sent": true }))?;
    }
    let full = two.ask(&format!("message {asking}"))?;
    ensure!(full["kind"] == "Undelivered" && full["text"] == "24", "{full}");
    for number in 0..24 {
        let next = json!({ "from": from, "kind": "Data", "text": number.to_string() });
        one.expect(&format!("message {listener}"), &next)?;
    }
    // Events, by call and by poll.
    one.expect(&format!("events {listener}"), &json!({ "registered": true }))?;
    one.expect("readable", &json!({ "readable": false }))?;
    two.expect(&format!("send {asking} {at} now"), &json!({ "sent": true }))?;
    eventually(|| Ok(one.ask("readable")? == json!({ "readable": true })), "the queue is readable")?;
    one.expect("event", &json!({ "what": "Message", "token": listener }))?;
    one.expect("readable", &json!({ "readable": false }))?;
    one.expect(&format!("message {listener}"), &json!({ "from": from, "kind": "Data", "text": "now" }))?;
    // A connection whose other end is killed.
    let (own, _) = endpoint(&mut one, "endpoint 0")?;
    one.begin(&format!("accept {listener} {own}"))?;
    made(&mut two, &format!("connect {asking} {at}"), "connection")?;
    let accepted = one.answer()?["connection"].clone();
    one.begin(&format!("end {accepted}"))?;
    two.0.kill(9)?;
    ensure!(one.answer()? == json!({ "ended": "gone" }));
    drop(one);
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn connect_is_refused_when_the_listener_is_killed() -> Result<()> {
    let lab = shared_of("clan")?;
    let (mut one, mut two) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (listener, at) = endpoint(&mut one, "endpoint 0")?;
    let (asking, _) = endpoint(&mut two, "endpoint 0")?;
    one.expect(&format!("events {listener}"), &json!({ "registered": true }))?;
    two.begin(&format!("connect {asking} {at}"))?;
    // The request is in the listener's queue and stays there.
    one.expect("event", &json!({ "what": "Message", "token": listener }))?;
    one.0.kill(9)?;
    let refused = two.answer()?;
    ensure!(text(&refused, "error") == "not connected: no listener has that name or port", "{refused}");
    drop(two);
    for vm in [0, 1] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn card_reset_is_reported_at_both_ends() -> Result<()> {
    let lab = clan_lab(2)?;
    for vm in [0, 1] {
        let hurry = "echo 6000 > /sys/module/hamlyn/parameters/peer_timeout";
        lab.vm(vm).run_as(0, ["sh", "-c", hurry])?.finish_text()?;
    }
    let (mut one, mut two) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (listener, at) = endpoint(&mut one, "endpoint 2000")?;
    let (own, _) = endpoint(&mut one, "endpoint 0")?;
    let (asking, _) = endpoint(&mut two, "endpoint 0")?;
    let (_, descriptor) = aperture(&mut two, 4096, "both")?;
    let window = made(&mut one, &format!("window {own} {descriptor}"), "window")?;
    one.begin(&format!("accept {listener} {own}"))?;
    made(&mut two, &format!("connect {asking} {at}"), "connection")?;
    let accepted = one.answer()?["connection"].clone();
    ensure!(answered(&mut one, &format!("fetch {window} 0"))? == json!({ "value": 0 }));
    one.begin(&format!("end {accepted}"))?;
    // After the reset the card has lost all its state and serves processes that open it again.
    let reset = "echo 1 > /sys/class/clan/clan0/device/reset";
    lab.vm(1).run_as(0, ["sh", "-c", reset])?.finish_text()?;
    ensure!(one.answer()? == json!({ "ended": "gone" }));
    two.fails(&format!("message {asking}"), "No such device")?;
    one.fails(&format!("fetch {window} 0"), "refused")?;
    let mut again = desk(&lab, 1)?;
    let (asking, _) = endpoint(&mut again, "endpoint 0")?;
    one.begin(&format!("message {listener}"))?;
    again.expect(&format!("send {asking} {at} back"), &json!({ "sent": true }))?;
    ensure!(one.answer()?["text"] == "back");
    log_is_clean(&lab, 0)
}
