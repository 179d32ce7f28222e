//! The cases of `programs.py`, with a process for each end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Run, Vm};
use serde_json::Value;

use super::{Pair, Report, reports};
use crate::network::root;

/// The parts of `programs.py`.
const FILES: [(&str, &str); 7] = [
    ("programs", include_str!("programs.py")),
    ("ends", include_str!("ends.py")),
    ("sending", include_str!("sending.py")),
    ("both_directions", include_str!("both_directions.py")),
    ("waiting", include_str!("waiting.py")),
    ("connections", include_str!("connections.py")),
    ("servers", include_str!("servers.py")),
];

/// Cases for connections that stay TCP.
const FEW: [&str; 4] = ["blocking", "by_epoll_edges", "half_close", "names_and_options"];

/// Cases for each way through a card.
const SOME: [&str; 7] = [
    "blocking",
    "non_blocking",
    "by_epoll_edges",
    "by_threads",
    "half_close",
    "exit_without_close",
    "names_and_options",
];

/// Longer than a case's own limit.
const PATIENCE: Duration = Duration::from_secs(700);

/// Which ends run under `hamlyn-run`.
struct Ends {
    server: bool,
    client: bool,
}

pub(super) fn all(pair: &Pair) -> Result<()> {
    run(pair, "cases", &Ends { server: true, client: true }, None)
}

pub(super) fn some(pair: &Pair) -> Result<()> {
    run(pair, "some", &Ends { server: true, client: true }, Some(&SOME))
}

/// Connections stay TCP if the other end's program is not run so.
pub(super) fn with_one_end(pair: &Pair) -> Result<()> {
    run(pair, "server-only", &Ends { server: true, client: false }, Some(&FEW))?;
    run(pair, "client-only", &Ends { server: false, client: true }, Some(&FEW))
}

fn start(pair: &Pair, vm: &Vm, name: &str, role: &str, ends: &Ends) -> Result<(Run, Vec<String>)> {
    for (file, text) in FILES {
        root(vm, &format!("mkdir -p /root/cases; cat > /root/cases/{file}.py <<'END'\n{text}\nEND"))?;
    }
    let is_under = if role == "server" { ends.server } else { ends.client };
    let under = if is_under { pair.under(name) } else { String::new() };
    let switches = if ends.server && ends.client { "switches" } else { "" };
    let command = format!("exec {under} python3 -W ignore /root/cases/programs.py {role} {switches}");
    let mut run = vm.run_as(0, ["sh", "-c", &command])?;
    run.set_patience(PATIENCE);
    let cases = serde_json::from_value(run.answer()?["cases"].take())?;
    Ok((run, cases))
}

/// Runs a case, and returns the results of its server and its client.
fn run_case(server: &mut Run, client: &mut Run, case: &str) -> Result<[Value; 2]> {
    server.say(case)?;
    let answer = server.answer()?;
    let port = answer["port"].as_u64().with_context(|| format!("no port: {answer}"))?;
    client.say(&format!("{case} {port}"))?;
    let of_client = client.answer()?;
    Ok([server.answer()?, of_client])
}

fn run(pair: &Pair, name: &str, ends: &Ends, cases: Option<&[&str]>) -> Result<()> {
    pair.begin(name)?;
    let (mut server, known) = start(pair, pair.server(), name, "server", ends)?;
    let (mut client, _) = start(pair, pair.client(), name, "client", ends)?;
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let mut results = Vec::new();
    for case in cases.unwrap_or(&known) {
        results.push(run_case(&mut server, &mut client, case).with_context(|| format!("case {case}"))?);
    }
    for run in [&mut server, &mut client] {
        run.close_stdin()?;
        run.wait()?;
    }
    let reports = [reports(pair.server(), name)?, reports(pair.client(), name)?];
    let mut wrong = Vec::new();
    for [of_server, of_client] in &results {
        let seconds = [of_server, of_client].map(|result| result["seconds"].as_f64().unwrap_or_default());
        println!("  {}: {:.1} s", of_server["case"], seconds[0].max(seconds[1]));
        for (index, result) in [of_server, of_client].into_iter().enumerate() {
            let end = ["server", "client"][index];
            let is_under = [ends.server, ends.client][index];
            let checked = check(pair, result, &reports[index], is_under, ends.server && ends.client);
            if let Err(error) = checked {
                wrong.push(format!("case {}, {end}: {error:#}", result["case"]));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Checks an end's result, and its report if it runs under `hamlyn-run`.
fn check(pair: &Pair, result: &Value, reports: &[Value], is_under: bool, both: bool) -> Result<()> {
    ensure!(result["status"] == 0, "status {}: {}", result["status"], result["error"].as_str().unwrap_or(""));
    let mine: Vec<&Value> = reports.iter().filter(|line| line["pid"] == result["pid"]).collect();
    ensure!(mine.len() == usize::from(is_under), "{} reports", mine.len());
    let report = Report::sum(mine)?;
    let least = if both { result["least"].as_u64().context("no count")? } else { 0 };
    let most = if both { result["most"].as_u64().unwrap_or(report.connections) } else { 0 };
    ensure!((least..=most).contains(&report.switched), "{least} to {most} are to be switched: {report:?}");
    pair.is_by_express(&report).with_context(|| format!("{report:?}"))
}
