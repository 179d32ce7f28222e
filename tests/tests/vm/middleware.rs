//! Middleware on the library: remote procedure calls, locks and Active Messages, whose processes
//! find each other by name.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::Value;

use crate::{lab, lab_of, shared, text};

/// Seconds for a call: it ends when its server does, or with an answer, however slow the host is.
const TIMEOUT: &str = "600";

/// Starts a program that reports when it is ready.
fn start(lab: &Lab, vm: usize, argv: &[&str]) -> Result<(Run, Value)> {
    let mut run = lab.vm(vm).run(argv.iter().copied())?;
    let ready = run.answer()?;
    ensure!(ready["error"].is_null(), "{argv:?}: {ready}");
    Ok((run, ready))
}

/// Returns the last line of a program that succeeds.
fn last(run: &mut Run) -> Result<Value> {
    run.finish()?.pop().context("no last word")
}

#[test]
fn procedure_calls_work_until_the_server_dies() -> Result<()> {
    let lab = lab(2);
    let (mut server, ready) = start(&lab, 0, &["rpc", "serve"])?;
    ensure!(ready["host"] == 0, "{ready}");
    // Several clients at once, one of them in the server's machine.
    let mut clients = [1, 1, 0]
        .map(|vm| lab.vm(vm).run(["rpc", "check", "--host", "0", "--rounds", "5", "--timeout", TIMEOUT]));
    for client in &mut clients {
        let client = client.as_mut().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let checked = last(client)?;
        ensure!(checked["verified"] == true && checked["calls"] == 45, "{checked}");
        let reasons = ["this procedure never works", "there is no procedure \"absent\""];
        for reason in reasons {
            ensure!(
                checked["errors"].as_array().is_some_and(|errors| errors.contains(&reason.into())),
                "{checked}"
            );
        }
    }
    let mut call = lab.vm(1).run(["rpc", "call", "--host", "0", "--timeout", TIMEOUT, "fail"])?;
    ensure!(text(&call.answer()?, "error") == "this procedure never works");
    let mut call = lab.vm(1).run([
        "rpc",
        "call",
        "--host",
        "0",
        "--timeout",
        TIMEOUT,
        "--name",
        "a name without a listener",
        "echo",
    ])?;
    ensure!(text(&call.answer()?, "error").contains("no listener has that name"));

    // A client dies. The server is told, and serves the others.
    let (mut killed, _) = start(&lab, 1, &["rpc", "watch", "--host", "0", "--timeout", TIMEOUT])?;
    killed.kill(9)?;
    killed.wait()?;
    let (mut watching, _) = start(&lab, 1, &["rpc", "watch", "--host", "0", "--timeout", TIMEOUT])?;
    // All but the last are gone: three closed, one ended with an error, one was killed.
    let gone = (0..5).map(|_| Ok(text(&server.answer()?, "gone"))).collect::<Result<Vec<_>>>()?;
    ensure!(gone.iter().filter(|reason| *reason == "it has closed").count() == 3, "{gone:?}");
    ensure!(gone.iter().any(|reason| reason.contains("its process ended")), "{gone:?}");
    server.close_stdin()?;
    last(&mut server)?;
    // The server exits, then is killed, then its machine is killed. Its client is told each time.
    let lost = text(&last(&mut watching)?, "lost");
    ensure!(lost.contains("without closing") || lost.contains("its process ended"), "{lost}");
    let (mut server, _) = start(&lab, 0, &["rpc", "serve"])?;
    let (mut watching, _) = start(&lab, 1, &["rpc", "watch", "--host", "0", "--timeout", TIMEOUT])?;
    server.kill(9)?;
    server.wait()?;
    ensure!(text(&last(&mut watching)?, "lost").contains("its process ended"));
    let (_server, _) = start(&lab, 0, &["rpc", "serve"])?;
    let (mut watching, _) = start(&lab, 1, &["rpc", "watch", "--host", "0", "--timeout", TIMEOUT])?;
    lab.vm(0).kill()?;
    let lost = text(&last(&mut watching)?, "lost");
    ensure!(lost.contains("its host gives no sign of life") || lost.contains("the link is lost"), "{lost}");
    Ok(())
}

#[test]
fn locks_exclude_and_pass_on_from_dead_owners() -> Result<()> {
    let lab = shared();
    let (mut first, _) = start(&lab, 0, &["locks", "manage"])?;
    let (mut second, _) = start(&lab, 1, &["locks", "manage"])?;
    let client = |vm: usize, more: &[&str]| {
        let argv = [&["locks", "--managers", "0,1"], more].concat();
        lab.vm(vm).run(argv)
    };
    let mut workers = Vec::new();
    for (vm, seed) in [(0, "1"), (1, "2"), (1, "3")] {
        workers.push(client(vm, &["work", "--count", "40", "--seed", seed])?);
    }
    let mut exclusive = 0;
    for worker in &mut workers {
        let worked = last(worker)?;
        ensure!(worked["verified"] == true, "{worked}");
        exclusive += worked["exclusive"].as_u64().context("a count")?;
    }
    // The owner is killed. The others have asked in this order.
    for lock in ["a", "b", "c", "d"] {
        let mut owner = client(1, &["hold", lock])?;
        ensure!(owner.answer()?["asked"] == lock && owner.answer()?["held"] == lock);
        let mut waiting = client(0, &["hold", lock])?;
        ensure!(waiting.answer()?["asked"] == lock);
        owner.kill(9)?;
        owner.wait()?;
        let held = waiting.answer()?;
        ensure!(held["held"] == lock, "{held}");
        waiting.close_stdin()?;
        ensure!(last(&mut waiting)?["released"] == lock);
    }
    first.close_stdin()?;
    second.close_stdin()?;
    let (first, second) = (last(&mut first)?, last(&mut second)?);
    for manager in [&first, &second] {
        ensure!(
            manager["held"] == 0 && manager["granted"].as_u64() > Some(0),
            "both are asked: {first} {second}"
        );
    }
    ensure!(first["counted"] == exclusive, "{exclusive} turns alone: {first}");
    Ok(())
}

/// Starts a process of the job on each of these machines.
fn histogram(lab: &Lab, machines: &[usize], samples: &str) -> Result<Vec<Run>> {
    let hosts: Vec<_> = machines.iter().map(usize::to_string).collect();
    let hosts = hosts.join(",");
    let rank = |(rank, vm): (usize, &usize)| {
        let rank = rank.to_string();
        lab.vm(*vm).run(["active-messages", "--rank", &rank, "--hosts", &hosts, "--samples", samples])
    };
    let mut runs = machines.iter().enumerate().map(rank).collect::<Result<Vec<_>>>()?;
    for run in &mut runs {
        ensure!(run.answer()?["met"] == machines.len());
    }
    Ok(runs)
}

#[test]
fn active_messages_count_a_histogram_of_three_machines() -> Result<()> {
    let lab = lab_of(Lab::builder().vms(3).switch_args(["--paths", "4"]));
    for run in &mut histogram(&lab, &[0, 1, 2, 1], "5000")? {
        let counted = last(run)?;
        ensure!(counted["verified"] == true, "{counted}");
    }
    // One process is killed in the middle. The others are told which one, and why.
    let mut runs = histogram(&lab, &[0, 1, 2], "100000000")?;
    runs[2].kill(9)?;
    let mut errors = Vec::new();
    for run in &mut runs[..2] {
        let error = text(&run.answer()?, "error");
        ensure!(error.contains("its process ended"), "{error}");
        errors.push(error);
    }
    // The other of the two may have given up first.
    ensure!(errors.iter().any(|error| error.contains("peer 2")), "{errors:?}");
    Ok(())
}

#[test]
fn the_programs_of_the_guide_run_in_machines() -> Result<()> {
    let lab = shared();
    let said = lab.vm(0).run(["programming"])?.finish_text()?;
    ensure!(said.last().is_some_and(|last| last == "all examples have run"), "{said:?}");
    ensure!(said.iter().any(|line| line == "host 0 says \"good morning\""), "by name, too: {said:?}");
    for (receiver, sender) in [("hello", "c-hello"), ("c-hello", "hello")] {
        let mut receiving = lab.vm(0).run([receiver])?;
        let seed = receiving.line()?;
        lab.vm(1).run([sender, &seed])?.finish_text()?;
        ensure!(receiving.finish_text()? == ["hello over there"]);
    }
    Ok(())
}
