//! Demo of the CLAN card.

use std::io::{Write, stdout};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::channel::{self, Carrier};
use super::show::{Hints, Show};
use super::stage::Stage;
use super::{DemoArgs, find_drivers, start};
use hamlyn_lab::{Lab, Run};

/// Demo, self-test and hints of the CLAN card.
pub(super) static SHOW: Show = Show {
    scenes: show,
    self_test: "clan self-test",
    exercises: &["clan-driver trespass", "clan-driver wakes"],
    hints: Hints {
        first: "clan server serve",
        does: "serves clients from one event queue",
        second: "clan server ask",
        asks: "sends it requests on four connections",
        more: &["clan hello", "clan queue", "clan rpc", "clan measure", "hamlyn-ping", "hamlyn-perf"],
    },
};

/// Transfers memory by stores and by DMA, checks the order of a queue, and makes calls.
fn show(args: &DemoArgs) -> anyhow::Result<()> {
    let stage = Stage::new();
    let lab = start(&stage, args, &args.machine.layout(2))?;
    stage.step("find the card's driver in both machines", |_| find_drivers(&lab, "clan"))?;
    stage.step("a message by stores, 20,000 bytes by DMA, all verified, and a load of them", |_| {
        let sent = both(&lab, &["hello", "receive"], &["hello", "send"])?;
        ensure!(sent["loaded"] == true, "the sender says {sent}");
        Ok(())
    })?;
    stage.step("a distributed queue of 2,000 items, whole and in their order", |_| {
        both(&lab, &["queue", "consume"], &["queue", "produce"])
    })?;
    let count = args.count.to_string();
    let title = format!("{count} calls from vm1 to vm0, each answer verified");
    let called =
        stage.step(&title, |_| both(&lab, &["rpc", "serve"], &["rpc", "call", "--count", &count]))?;
    let trips = channel::round_trips(&stage, &lab, &[Carrier::Card], args.count)?;
    lab.check().context("after the last message")?;
    let median = called["p50_ns"].as_f64().context("the program named no time")?;
    writeln!(stdout(), "\n{count} calls, half of them in at most {:.1} us\n", median / 1e3)?;
    writeln!(stdout(), "{}", channel::lines(&trips).join("\n"))?;
    Ok(())
}

/// Starts the waiting program in one machine and the other program in the other. Returns the last
/// output of the latter.
fn both(lab: &Lab, waits: &[&str], begins: &[&str]) -> anyhow::Result<Value> {
    let run = |vm: usize, words: &[&str]| lab.vm(vm).run(["clan"].iter().chain(words).copied());
    let mut waiting: Run = run(0, waits)?;
    let place: Value = waiting.answer()?;
    ensure!(place.get("error").is_none(), "the program that waits says {place}");
    let said = run(1, begins)?.finish()?.pop().context("the program said nothing of its result")?;
    waiting.finish()?;
    Ok(said)
}
