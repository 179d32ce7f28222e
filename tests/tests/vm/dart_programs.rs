//! Compound operations of DART cards between real machines: one host has the registers and memory,
//! two others operate on them at the same time. Also checks what each operation costs.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run, SELDOM_PROBES};
use serde_json::{Value, json};

use crate::dart::{nothing_is_left, shared_three_dart};
use crate::desk::Desk;
use crate::left::log_is_clean;
use crate::shrimp_paging::shell;
use crate::{if_long, shared_of};

/// The program in Rust that has both parts.
pub(crate) const RUST: &str = "dart-driver";

/// Starts the host's part and the parts of the others with these programs, and admits each of the
/// others.
fn programs(lab: &Lab, one: &str, others: &[&str]) -> Result<(Desk<Run>, Vec<Desk<Run>>)> {
    let mut one = Desk(lab.vm(0).run([one, "serve"])?);
    ensure!(one.answer()? == json!({ "serving": true }));
    let mut all = Vec::new();
    for (own, other) in others.iter().enumerate() {
        one.begin("admit")?;
        let number = own.to_string();
        let mut client = Desk(lab.vm(own + 1).run([other, "call", "0", &number])?);
        ensure!(one.answer()? == json!({ "admitted": own + 1 }));
        ensure!(client.answer()? == json!({ "calling": true }));
        all.push(client);
    }
    Ok((one, all))
}

/// Runs one command on all clients at once.
fn all(clients: &mut [Desk<Run>], line: &str) -> Result<Vec<Value>> {
    clients.iter_mut().try_for_each(|client| client.begin(line))?;
    clients.iter_mut().map(Desk::answer).collect()
}

#[test]
fn compound_operations_of_several_hosts_are_atomic() -> Result<()> {
    let lab = shared_three_dart()?;
    are_whole(&lab, RUST, [RUST; 2])
}

/// Checks all compound operations on three machines, with these programs.
pub(crate) fn are_whole(lab: &Lab, one: &str, others: [&str; 2]) -> Result<()> {
    let (mut one, mut clients) = programs(lab, one, &others)?;
    let some = u64::from(if_long(1000, 60));
    // Fetch and increment: each number once.
    let before = all(&mut clients, &format!("increment {some}"))?;
    ensure!(before.iter().any(|answer| answer["before"] == json!(2 * some - 1)), "{before:?}");
    one.expect("counter 0", &json!({ "value": 2 * some }))?;
    // Compare and swap: none lost.
    all(&mut clients, &format!("add {some}"))?;
    one.expect("counter 1", &json!({ "value": 2 * some }))?;
    // A lock around a sequence that is not one operation.
    let done = all(&mut clients, "locked 30")?;
    ensure!(done.iter().all(|answer| *answer == json!({ "added": 30 })), "{done:?}");
    one.expect("word 0", &json!({ "value": 60 }))?;
    // A log: each entry once, and none behind its end.
    one.expect(&format!("log {}", 2 * some), &json!({ "set": true }))?;
    all(&mut clients, &format!("append {some}"))?;
    let entries: Vec<u64> = (0..some).chain(1000..1000 + some).collect();
    one.expect("logged", &json!({ "entries": entries }))?;
    clients[1].expect("full", &json!({ "refused": "Refused" }))?;
    // Scattered blocks.
    let gathered = all(&mut clients, "gather")?;
    ensure!(gathered.iter().all(|answer| *answer == json!({ "gathered": true })), "{gathered:?}");
    // Several producers, and a queue that is often full: no item is lost, and each producer's items
    // stay in order.
    clients.iter_mut().try_for_each(|client| client.begin(&format!("put {some}")))?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    one.expect(&format!("items {}", 2 * some), &json!({ "came": 2 * some, "each": [some, some] }))?;
    clients.iter_mut().try_for_each(|client| client.answer().map(drop))?;
    // A barrier: no client continues before all have arrived.
    one.begin("barrier 20")?;
    ensure!(one.answer()? == json!({ "open": true }));
    let rounds = all(&mut clients, "meet 20")?;
    ensure!(rounds.iter().all(|answer| *answer == json!({ "round": 20 })), "{rounds:?}");
    ensure!(one.answer()? == json!({ "round": 20 }));
    // Calls.
    one.begin("calls 100")?;
    let called = all(&mut clients, "call 50")?;
    ensure!(called.iter().all(|answer| *answer == json!({ "called": 50 })), "{called:?}");
    ensure!(one.answer()? == json!({ "answered": 100 }));
    // A host that is interrupted only by more urgent entries.
    one.expect("backlog", &json!({ "begun": true }))?;
    clients[0].expect("urge 3 5 2", &json!({ "put": 3 }))?;
    one.expect("urgent", &json!({ "event": true, "taken": [5, 3, 2] }))?;
    clients[1].expect("urge 1", &json!({ "put": 1 }))?;
    one.expect("urgent", &json!({ "event": true, "taken": [1] }))?;
    one.expect("urgent", &json!({ "event": false, "taken": [] }))?;
    drop((one, clients));
    for vm in [0, 1, 2] {
        nothing_is_left(lab, vm)?;
        log_is_clean(lab, vm)?;
    }
    Ok(())
}

/// Counters of a machine's card.
struct Counted {
    messages: u64,
    answers: u64,
    primitives: u64,
    interrupts: u64,
}

fn counted(looker: &mut Desk<Run>) -> Result<Counted> {
    let mut of = |name: &str| -> Result<u64> {
        let answer = looker.ask(&format!("counter {name}"))?;
        answer["value"].as_u64().with_context(|| format!("{name}: {answer}"))
    };
    Ok(Counted {
        messages: of("messages_sent")?,
        answers: of("answers_sent")?,
        primitives: of("primitives")?,
        interrupts: of("interrupts")?,
    })
}

/// An operation, and how to run it.
struct Done {
    /// Its name in `docs/dart.md`.
    name: &'static str,
    /// The client's command, and how often it runs the operation.
    line: &'static str,
    times: u64,
    /// Questions that follow the operation. Each is a fetch.
    asked: u64,
    /// The host's command before the operation, if its software takes part.
    host: Option<&'static str>,
}

const fn silent(name: &'static str, line: &'static str, times: u64) -> Done {
    Done { name, line, times, asked: 0, host: None }
}

const OPERATIONS: [Done; 9] = [
    silent("fetch and increment", "increment 20", 20),
    silent("compare and swap", "add 20", 20),
    silent("lock, taken and given back", "lock 20", 20),
    silent("read of a block", "read 20", 20),
    Done { asked: 1, ..silent("entry of a log", "append 1", 1) },
    silent("item of a producer", "put 15", 15),
    Done { asked: 1, ..silent("entry of a priority queue", "urge 4", 1) },
    Done { host: Some("barrier 1"), ..silent("barrier, for each that comes", "meet 1", 1) },
    Done { host: Some("calls 1"), ..silent("remote procedure call", "call 1", 1) },
];

/// Returns the documented cost: messages, messages back, answers, primitives at the receiver, and
/// the most interrupts of its host.
fn said(operation: &str) -> Result<[u64; 5]> {
    let rows = include_str!("../../../docs/dart.md").lines();
    let row = rows.filter_map(|row| row.strip_prefix(&format!("| {operation} | "))).next_back();
    let numbers = row.with_context(|| format!("no row of {operation}"))?.trim_end_matches(" |").split(" | ");
    let numbers = numbers.map(|number| number.trim_end_matches(" at most").parse());
    let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
    <[u64; 5]>::try_from(numbers).map_err(|numbers| anyhow::anyhow!("{operation}: {numbers:?}"))
}

/// Runs the operation once.
fn carry_out(done: &Done, one: &mut Desk<Run>, client: &mut Desk<Run>) -> Result<()> {
    if let Some(line) = done.host {
        one.begin(line)?;
        if line.starts_with("barrier") {
            ensure!(one.answer()? == json!({ "open": true }));
        }
    }
    let answer = client.ask(done.line)?;
    ensure!(answer["error"].is_null(), "{}: {answer}", done.name);
    done.host.map_or(Ok(()), |_| one.answer().map(drop))
}

#[test]
fn compound_operations_cost_what_the_documentation_says() -> Result<()> {
    let lab = shared_of("dart")?;
    [0, 1].into_iter().try_for_each(|vm| shell(&lab, vm, SELDOM_PROBES).map(drop))?;
    let (mut one, mut clients) = programs(&lab, RUST, &[RUST])?;
    one.expect("log 100", &json!({ "set": true }))?;
    one.expect("backlog", &json!({ "begun": true }))?;
    let mut at_one = crate::dart::desk(&lab, 0)?;
    let mut at_client = crate::dart::desk(&lab, 1)?;
    // The first access to an untouched page is a miss, which interrupts the host once.
    for done in &OPERATIONS {
        carry_out(done, &mut one, &mut clients[0])?;
        clients[0].ask("increment 1")?;
        if done.line.starts_with("put") {
            one.expect("items 15", &json!({ "came": 15, "each": [15] }))?;
        }
    }
    for done in &OPERATIONS {
        let Done { name, times, asked, .. } = done;
        let [messages, back, answers, primitives, interrupts] = said(name)?;
        let expected =
            [messages * times + asked, back * times, answers * times + asked, primitives * times + asked];
        let (here, there) = (counted(&mut at_client)?, counted(&mut at_one)?);
        carry_out(done, &mut one, &mut clients[0])?;
        let mut found = || -> Result<[u64; 4]> {
            let (here_now, there_now) = (counted(&mut at_client)?, counted(&mut at_one)?);
            Ok([
                here_now.messages - here.messages,
                there_now.messages - there.messages,
                there_now.answers - there.answers,
                there_now.primitives - there.primitives,
            ])
        };
        crate::eventually(
            || Ok(found()?.iter().zip(expected).all(|(found, expected)| *found >= expected)),
            "all have left and been executed",
        )?;
        let found = found()?;
        ensure!(found == expected, "{name}: {found:?}, not {expected:?}");
        let interrupted = counted(&mut at_one)?.interrupts - there.interrupts;
        ensure!(interrupted <= interrupts, "{name} has interrupted the other host {interrupted} times");
    }
    Ok(())
}
