//! CPython's own tests of sockets.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Run, Vm};

use super::Pair;
use crate::network::root;

/// Fewer tests than this would be a sign that most were not found.
const LEAST: u64 = 300;
/// For a machine without hardware virtualisation.
const PATIENCE: Duration = Duration::from_secs(400);

fn start(vm: &Vm, under: &str) -> Result<Run> {
    root(vm, &format!("cat > /root/cpython.py <<'END'\n{}\nEND", include_str!("cpython.py")))?;
    let mut run =
        vm.run_as(0, ["sh", "-c", &format!("cd /tmp; exec {under} python3 -W ignore /root/cpython.py")])?;
    run.set_patience(PATIENCE);
    Ok(run)
}

/// Runs them in one machine as they are, and in the other under `hamlyn-run`.
pub(super) fn same_failures(pair: &Pair) -> Result<()> {
    pair.begin("cpython")?;
    let mut plain = start(pair.client(), "")?;
    let mut under = start(pair.server(), &pair.under("cpython"))?;
    let [plain, under] = [plain.finish_text()?, under.finish_text()?];
    let log =
        || root(pair.server(), "sed -n '/^=====/,$p' /tmp/cpython.log | head -n 100").unwrap_or_default();
    let only = |one: &[String], other: &[String]| -> Vec<String> {
        one.iter().filter(|line| !other.contains(line)).cloned().collect()
    };
    let differ = [only(&plain, &under), only(&under, &plain)];
    ensure!(
        plain == under,
        "only without hamlyn-run: {:?}, only under it: {:?}\n{}",
        differ[0],
        differ[1],
        log()
    );
    let ran = plain.iter().find_map(|line| line.strip_prefix("ran ")).context("no number of tests")?;
    ensure!(ran.parse::<u64>()? >= LEAST, "{ran} tests");
    println!("{ran} tests of CPython, of which these fail or are skipped: {:?}", &plain[..plain.len() - 1]);
    Ok(())
}
