//! CPython's own tests of sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Run, Vm};

use super::Pair;
use crate::network::root;

/// Fewer tests than this would be a sign that most were not found.
const LEAST: u64 = 300;
/// For a loaded machine without hardware virtualisation: the program prints only at its end.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Many of the tests limit the time that something takes, so they fail at times on a loaded host.
/// Those with different results run again, up to this often.
const RERUNS: usize = 3;

/// The results of each test in one machine: `passed`, or how it did not.
type Results = BTreeMap<String, BTreeSet<String>>;

fn start(vm: &Vm, under: &str, only: &str) -> Result<Run> {
    root(vm, &format!("cat > /root/cpython.py <<'END'\n{}\nEND", include_str!("cpython.py")))?;
    let command = format!("cd /tmp; exec {under} python3 -W ignore /root/cpython.py {only}");
    let mut run = vm.run_as(0, ["sh", "-c", &command])?;
    run.set_patience(PATIENCE);
    Ok(run)
}

/// Runs tests in one machine as they are, and in the other under `hamlyn-run`. Returns what both
/// print.
fn run(pair: &Pair, only: &str) -> Result<[Vec<String>; 2]> {
    let mut plain = start(pair.client(), "", only)?;
    let mut under = start(pair.server(), &pair.under("cpython"), only)?;
    Ok([plain.finish_text()?, under.finish_text()?])
}

/// Adds the results that one run prints.
fn add(results: &mut Results, lines: &[String]) {
    for (result, test) in lines.iter().filter_map(|line| line.split_once(' ')) {
        if result != "ran" {
            results.entry(test.to_owned()).or_default().insert(result.to_owned());
        }
    }
}

/// Returns whether a test has the same result in both machines. One that has passed in one of them
/// must pass in the other, too.
fn agrees(plain: Option<&BTreeSet<String>>, under: Option<&BTreeSet<String>>) -> bool {
    let (Some(plain), Some(under)) = (plain, under) else { return false };
    match (plain.contains("passed"), under.contains("passed")) {
        (false, false) => !plain.is_disjoint(under),
        (plain, under) => plain && under,
    }
}

pub(super) fn same_failures(pair: &Pair) -> Result<()> {
    pair.begin("cpython")?;
    let lines = run(pair, "")?;
    let ran = lines.each_ref().map(|lines| lines.iter().find_map(|line| line.strip_prefix("ran ")));
    ensure!(ran[0] == ran[1], "{ran:?} tests");
    let ran = ran[0].context("no number of tests")?;
    ensure!(ran.parse::<u64>()? >= LEAST, "{ran} tests");

    let [mut plain, mut under] = [Results::new(), Results::new()];
    add(&mut plain, &lines[0]);
    add(&mut under, &lines[1]);
    // A run of all prints only tests that have not passed.
    let failing: BTreeSet<String> = plain.keys().chain(under.keys()).cloned().collect();
    for results in [&mut plain, &mut under] {
        for test in &failing {
            results.entry(test.clone()).or_insert_with(|| ["passed".to_owned()].into());
        }
    }
    let differ = |plain: &Results, under: &Results| -> Vec<String> {
        failing.iter().filter(|test| !agrees(plain.get(*test), under.get(*test))).cloned().collect()
    };
    for _ in 0..RERUNS {
        let again = differ(&plain, &under);
        if again.is_empty() {
            break;
        }
        println!("run again: {again:?}");
        let lines = run(pair, &again.join(" "))?;
        add(&mut plain, &lines[0]);
        add(&mut under, &lines[1]);
    }
    let wrong: Vec<String> = differ(&plain, &under)
        .iter()
        .map(|test| format!("{test}: {:?} as it is, {:?} under hamlyn-run", plain[test], under[test]))
        .collect();
    let log =
        || root(pair.server(), "sed -n '/^=====/,$p' /tmp/cpython.log | head -n 100").unwrap_or_default();
    ensure!(wrong.is_empty(), "{wrong:#?}\n{}", log());
    println!("{ran} tests of CPython, of which these fail or are skipped: {failing:?}");
    Ok(())
}
