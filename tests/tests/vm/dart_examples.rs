//! The examples of DART cards (`dart keep`, `dart join`) on three machines: what each operation
//! does to one host's memory and registers, and how often it interrupts that host.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, SELDOM_PROBES, SWAP};
use serde_json::{Value, json};

use crate::dart::{nothing_is_left, shared_three_dart};
use crate::left::log_is_clean;
use crate::shared_of;
use crate::shrimp_paging::shell;

/// Runs an operation. Returns the host's output, one line for each count, and the last line of each
/// of the others.
fn play(lab: &Lab, operation: &str, others: usize, count: u64) -> Result<(Vec<Value>, Vec<Value>)> {
    let (count, number) = (count.to_string(), others.to_string());
    // The host is given by its number. A lookup would also wait for hosts that do not exist, until
    // they are given up, which is late here.
    let words = |role| ["dart", role, operation, "--count", &count, "--host", "0"];
    let mut home = lab.vm(0).run(words("keep").into_iter().chain(["--others", &number]))?;
    let listening = home.answer()?;
    ensure!(listening == json!({ "listening": format!("dart-{operation}"), "host": 0 }), "{listening}");
    let guests = (0..others).map(|own| lab.vm(1 + own % 2).run(words("join")));
    let mut said = Vec::new();
    for mut guest in guests.collect::<Result<Vec<_>>>()? {
        said.push(guest.finish()?.pop().context("a guest said nothing")?);
    }
    Ok((home.finish()?, said))
}

/// Like [`play`], for operations for which the host counts once.
fn once(lab: &Lab, operation: &str, others: usize, count: u64) -> Result<(Value, Vec<Value>)> {
    let (mut home, said) = play(lab, operation, others, count)?;
    ensure!(home.len() == 1, "{operation}: {home:?}");
    Ok((home.remove(0), said))
}

/// Expected results of the operations that do not disturb the host at all.
const SILENT: [(&str, usize, u64, &str, u64); 8] = [
    ("hello", 1, 50, "deposits", 50),
    ("counter", 3, 30, "value", 90),
    ("swap", 3, 20, "value", 60),
    ("lock", 3, 10, "value", 30),
    ("log", 3, 100, "entries", 300),
    ("queue", 3, 100, "taken", 300),
    ("priority", 2, 20, "taken", 40),
    ("blocks", 2, 150, "read", 300),
];

#[test]
fn each_example_works_and_interrupts_only_when_needed() -> Result<()> {
    let lab = shared_three_dart()?;
    [0, 1, 2].into_iter().try_for_each(|vm| shell(&lab, vm, SELDOM_PROBES).map(drop))?;
    for (operation, others, count, field, expected) in SILENT {
        let (home, _) = once(&lab, operation, others, count)?;
        ensure!(home[field] == expected && home["interrupts"] == 0, "{operation}: {home}");
        ensure!(home["misses"] == 0, "{operation}: {home}");
    }
    // One process appends until there is no room.
    let (home, said) = once(&lab, "log", 1, 40)?;
    ensure!(home["entries"] == 40 && said[0]["refused"] == "Refused", "{home} {said:?}");
    // The first and the second of the priorities are more urgent than all before.
    let (home, _) = once(&lab, "priority", 1, 20)?;
    ensure!(home["told"] == 2, "{home}");
    let (home, said) = once(&lab, "barrier", 3, 10)?;
    ensure!(home["rounds"] == 10 && said.iter().all(|one| one["round"] == 10), "{home} {said:?}");
    let (home, _) = once(&lab, "rpc", 3, 20)?;
    ensure!(home["answered"] == 60, "{home}");
    // The called operation belongs to the host. It appends at first. After the host has replaced
    // it, it writes nothing.
    let (home, said) = play(&lab, "call", 2, 50)?;
    ensure!(home.len() == 2 && said.iter().all(|one| one["called"] == 100), "{home:?} {said:?}");
    for (counted, written) in home.iter().zip([100, 0]) {
        ensure!(counted["called"] == 100 && counted["written"] == written, "{counted}");
        ensure!(counted["interrupts"] == 0, "{counted}");
    }
    for vm in [0, 1, 2] {
        nothing_is_left(&lab, vm)?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

#[test]
fn events_exceptions_and_misses_interrupt_the_host() -> Result<()> {
    let lab = shared_of("dart")?;
    [0, 1].into_iter().try_for_each(|vm| shell(&lab, vm, SELDOM_PROBES).map(drop))?;
    shell(&lab, 0, SWAP)?;
    let tested = lab.vm(0).run_as(0, ["dart", "self-test"])?.finish()?;
    ensure!(tested[0]["passed"] == true, "{tested:?}");
    let lab: &Lab = &lab;
    let one = |operation, count| once(lab, operation, 1, count);
    let interrupts = |home: &Value| home["interrupts"].as_u64().context("no interrupts were counted");
    // Delayed events interrupt only to wake a sleeper.
    let (delayed, _) = one("delayed", 64)?;
    ensure!(delayed["taken"] == 64 && interrupts(&delayed)? <= 1, "{delayed}");
    // If a machine is stopped for a while, it takes all records with one interrupt.
    let mut immediate = (0..5).map(|_| one("immediate", 64).map(|(home, _)| home));
    let is_each = |home: Result<Value>| {
        home.is_ok_and(|home| home["taken"] == 64 && interrupts(&home).is_ok_and(|count| count > 1))
    };
    ensure!(immediate.any(is_each), "immediate records do not interrupt");
    let (exception, _) = one("exception", 3)?;
    ensure!(exception["multiplied"] == 3 && interrupts(&exception)? >= 1, "{exception}");
    // Memory that is not present: one miss for each page, and all written data arrives.
    let (home, _) = play(lab, "swapped", 1, 32)?;
    ensure!(home.len() == 2, "{home:?}");
    for (counted, were) in home.iter().zip(["never touched", "swapped out"]) {
        ensure!(counted["were"] == were && counted["present"] == 0 && counted["misses"] == 32, "{counted}");
        ensure!(counted["verified"] == true && interrupts(counted)? >= 1, "{counted}");
    }
    let (home, said) = one("trespass", 1)?;
    ensure!(home["refused"] == json!(["Bounds", "Index", "Right"]) && home["unchanged"] == true, "{home}");
    ensure!(
        home["discarded"] == 1 && said[0]["refused"].as_object().is_some_and(|all| all.len() == 3),
        "{home}"
    );
    Ok(())
}
