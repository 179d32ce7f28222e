//! Demo of the echo card.

use std::io::{Write, stdout};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::channel::{self, Carrier};
use super::show::{Hints, Show};
use super::stage::Stage;
use super::{DemoArgs, find_drivers, start};
use hamlyn_lab::Lab;

/// Demo, self-test and hints of the echo card.
pub(super) static SHOW: Show = Show {
    scenes: show,
    self_test: "echo-card self-test",
    exercises: &["echo-card loopback --count 100 --timeout 5"],
    hints: Hints {
        first: "echo-card serve",
        does: "answers a thousand messages",
        second: "echo-card ask --host 0 --mailbox 0",
        asks: "sends them, and verifies the answers",
        more: &[],
    },
};

/// One machine sends requests and the other answers. Each message is compared.
fn show(args: &DemoArgs) -> anyhow::Result<()> {
    let stage = Stage::new();
    let lab = start(&stage, args, &args.machine.layout(2))?;
    stage.step("find the card's driver in both machines", |_| find_drivers(&lab, "echo"))?;
    let title = format!("{} messages from vm1 to vm0 and back, every byte verified", args.count);
    let median = stage.step(&title, |_| round_trips(&lab, args.count))?;
    let trips = channel::round_trips(&stage, &lab, &[Carrier::Card], args.count)?;
    lab.check().context("after the last message")?;
    let mut out = stdout();
    writeln!(out, "\n{} messages and answers, half of them in at most {:.1} us\n", args.count, median / 1e3)?;
    writeln!(out, "{}", channel::lines(&trips).join("\n"))?;
    Ok(())
}

/// Returns the median of the round trips, in nanoseconds.
fn round_trips(lab: &Lab, count: u64) -> anyhow::Result<f64> {
    let count_text = count.to_string();
    let mut server = lab.vm(0).run(["echo-card", "serve", "--count", &count_text])?;
    let place: Value = server.answer()?;
    ensure!(place.get("error").is_none(), "the program that answers says {place}");
    let [host, mailbox] = ["host", "mailbox"].map(|word| place[word].to_string());
    let ask = ["echo-card", "ask", "--host", &host, "--mailbox", &mailbox, "--count", &count_text];
    let asked = lab.vm(1).run(ask)?.finish()?.pop().context("the program said nothing of its result")?;
    server.finish()?;
    ensure!(asked["round_trips"] == count && asked["verified"] == true, "the program's result is {asked}");
    asked["p50_ns"].as_f64().context("the program named no time")
}
