//! Per-user limits: card objects, pinned memory, and the time that one user takes from others on
//! the card.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Exit, Lab, Memory, Run};
use serde_json::{Value, json};

use crate::left::log_has_none;
use crate::turn::has_debug_kernel;
use crate::{eventually, lab, lab_of, shared};

const KINDS: [&str; 4] = ["termini", "slots", "queues", "connections"];

/// Sets a parameter of the module.
fn set(lab: &Lab, vm: usize, parameter: &str, value: u32) -> Result<()> {
    let set = format!("echo {value} > /sys/module/hamlyn/parameters/{parameter}");
    lab.vm(vm).run_as(0, ["sh", "-c", &set])?.finish_text()?;
    Ok(())
}

/// A user's process that takes everything it can get, and what it got.
struct Greedy {
    run: Run,
    got: Value,
}

impl Greedy {
    fn of(lab: &Lab, user: u32) -> Result<Greedy> {
        Greedy::start(lab, user, &["driver-check", "greedy"])
    }

    /// Starts the process as another user id, in a user namespace that this user creates.
    fn disguised(lab: &Lab, user: u32) -> Result<Greedy> {
        Greedy::start(lab, user, &["unshare", "-U", "driver-check", "greedy"])
    }

    fn start(lab: &Lab, user: u32, program: &[&str]) -> Result<Greedy> {
        let mut run = lab.vm(0).run_as(user, program.iter().copied())?;
        let got = run.answer()?;
        Ok(Greedy { run, got })
    }

    fn made(&self, kind: &str) -> Result<u64> {
        self.got[kind]["made"].as_u64().with_context(|| format!("no {kind} in {}", self.got))
    }

    fn go(mut self) -> Result<()> {
        self.run.kill(9)?;
        ensure!(self.run.wait()? == Exit::Signal(9));
        Ok(())
    }
}

/// Runs checks to their end as a user. All must pass.
fn check(lab: &Lab, user: u32, what: &str) -> Result<()> {
    crate::driver::check(lab.vm(0).run_as(user, ["driver-check", what])?, 3)
}

#[test]
fn memlock_error_names_the_limit_to_raise() -> Result<()> {
    let lab = shared();
    let mut poor = lab.vm(0).run(["sh", "-c", "ulimit -l 4; exec stream receive"])?;
    assert_eq!(poor.wait()?, Exit::Code(1));
    let said = poor.stderr();
    assert!(said.contains("ulimit -l") && said.contains("limit 4096 bytes"), "{said}");
    Ok(())
}

#[test]
fn greedy_user_leaves_resources_to_other_users() -> Result<()> {
    let lab = lab(1);
    // There are more connections than a process may have open files.
    set(&lab, 0, "share", 5)?;
    let connections = Greedy::of(&lab, 1001)?;
    ensure!(connections.got["connections"]["limit"] == "share", "{}", connections.got);
    connections.go()?;
    set(&lab, 0, "share", 50)?;

    let whole = [63_u64, 3962 - 64, 255];
    let first = Greedy::of(&lab, 1001)?;
    let second = Greedy::of(&lab, 1002)?;
    // The first user gets half of the unreserved objects, the second half of the rest. Root gets
    // everything else.
    for (kind, whole) in KINDS.into_iter().zip([whole[0], whole[1], whole[2]]) {
        let free = whole - whole / 10;
        let (first, second) = (first.made(kind)?, second.made(kind)?);
        ensure!(first == free / 2, "{kind}: {first} of {free}");
        ensure!(second == (free - first) / 2, "{kind}: {second} of {free}");
    }
    for greedy in [&first, &second] {
        for kind in &KINDS[..3] {
            ensure!(greedy.got[kind]["limit"] == "share", "{}", greedy.got);
        }
    }
    let holders = lab.vm(0).read("/sys/class/hamlyn/hamlyn0/holders")?;
    let line = format!("1001 {} {} {}", first.made("termini")?, first.made("slots")?, first.made("queues")?);
    ensure!(holders.lines().any(|holder| holder.starts_with(&line)), "{line}: {holders}");

    // Root can still use a card that other users have filled.
    let root = Greedy::of(&lab, 0)?;
    // Root takes slots last: as many as fit into the memory's bytes, of which the driver uses some.
    let memory = 512 * 1024 - 4 * (64 + 3962 + 256_u64).next_multiple_of(16) - (64 * 128 + 512 + 64);
    let slots = (memory - 512 * whole[0] - 64 * whole[2]) / 128;
    for (kind, whole) in KINDS.into_iter().zip([whole[0], slots, whole[2]]) {
        let all = first.made(kind)? + second.made(kind)? + root.made(kind)?;
        ensure!(all == whole && root.got[kind]["limit"] == "card", "{kind}: {all} of {whole}, {}", root.got);
    }
    // Returned objects can be allocated again.
    root.go()?;
    first.go()?;
    let third = Greedy::of(&lab, 1002)?;
    ensure!(third.made("slots")? > 0, "{}", third.got);
    third.go()?;
    second.go()?;
    eventually(
        || Ok(lab.vm(0).read("/sys/class/hamlyn/hamlyn0/holders")?.lines().count() == 1),
        "no process holds an object",
    )?;
    log_has_none(&lab, 0, &["is stopped"])
}

#[test]
fn user_namespace_does_not_raise_the_quota() -> Result<()> {
    let lab = shared();
    let first = Greedy::of(&lab, 1001)?;
    let again = Greedy::disguised(&lab, 1001)?;
    // There are more connections than a process may have open files.
    for kind in &KINDS[..3] {
        ensure!(first.made(kind)? > 0 && again.made(kind)? == 0, "{kind}: {} and {}", first.got, again.got);
    }
    let second = Greedy::disguised(&lab, 1002)?;
    ensure!(second.made("termini")? > 0, "{}", second.got);
    log_has_none(&lab, 0, &["is stopped"])
}

#[test]
fn ended_connections_and_passed_files_are_charged_correctly() -> Result<()> {
    let lab = lab(1);
    check(&lab, 0, "passed")?;
    // About 140 connections for a user.
    set(&lab, 0, "share", 1)?;
    check(&lab, 1001, "ended")?;
    log_has_none(&lab, 0, &["is stopped"])
}

#[test]
fn pinned_memory_limit_counts_all_user_processes() -> Result<()> {
    let lab = shared();
    check(&lab, 1001, "memlock")?;
    check(&lab, 1002, "memlock")?;
    log_has_none(&lab, 0, &["is stopped"])
}

#[test]
fn large_exit_does_not_block_other_card_users() -> Result<()> {
    const PAGES: u64 = 1024;
    // A debug kernel takes some 20 times as long for each page.
    let slots: u64 = if has_debug_kernel() { 200 } else { 1800 };
    let lab = lab_of(Lab::builder().vms(2).memory(Memory::mib(512)).card_args(["--handshake", "6000"]));
    for vm in 0..2 {
        set(&lab, vm, "peer_timeout", 6000)?;
    }
    // An unrelated pair of processes.
    let (mut server, mut client) = (lab.vm(1).run(["connections"])?, lab.vm(0).run(["connections"])?);
    server.say("listen svc")?;
    ensure!(server.answer()? == json!({ "listening": "svc" }));
    client.say("connect 1 svc")?;
    server.say("accept svc")?;
    ensure!(server.answer()?["connection"] == 1 && client.answer()?["connection"] == 1);

    let (count, pages) = (slots.to_string(), PAGES.to_string());
    let mut hoard = lab.vm(0).run_as(0, ["driver-check", "hoard", "--slots", &count, "--pages", &pages])?;
    ensure!(hoard.answer()?["slots"] == slots);
    let all = (slots * PAGES).to_string();
    let mut beside = lab.vm(0).run(["driver-check", "beside", "--pages", &all])?;
    beside.answer()?;
    hoard.kill(9)?;
    hoard.wait()?;
    let calls = beside.answer()?;
    ensure!(calls["calls"].as_u64() > Some(0), "no call was carried out meanwhile: {calls}");
    for run in [&mut server, &mut client] {
        run.say("look 1")?;
        ensure!(run.answer()? == Value::Null);
    }
    log_has_none(&lab, 0, &["is stopped"])
}
