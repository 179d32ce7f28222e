//! Demo of the SHRIMP card.

use std::io::{Write, stdout};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::channel::{self, Carrier};
use super::show::{Hints, Show};
use super::stage::Stage;
use super::{DemoArgs, find_drivers, start};
use hamlyn_lab::Lab;

/// Demo, self-test and hints of the SHRIMP card.
pub(super) static SHOW: Show = Show {
    scenes: show,
    self_test: "shrimp self-test",
    exercises: &["shrimp trespass"],
    hints: Hints {
        first: "shrimp hello receive",
        does: "waits until a message is stored in its memory",
        second: "shrimp hello send",
        asks: "stores one there, and sends some pages",
        more: &["shrimp queue consume", "shrimp queue produce"],
    },
};

/// Number of pieces of 1 MiB that are sent.
const UPDATES: &str = "20";

/// Sends a flag to the other machine and back by automatic update, and pages by deliberate update.
fn show(args: &DemoArgs) -> anyhow::Result<()> {
    let stage = Stage::new();
    let lab = start(&stage, args, &args.machine.layout(2))?;
    stage.step("find the card's driver in both machines", |_| find_drivers(&lab, "shrimp"))?;
    let title = format!("a flag from vm1 to vm0 and back, {} times; then {UPDATES} MiB", args.count);
    let result = stage.step(&title, |_| measure(&lab, args.count))?;
    let trips = channel::round_trips(&stage, &lab, &[Carrier::Card], args.count)?;
    lab.check().context("after the last message")?;
    let number = |name: &str| result[name].as_f64().with_context(|| format!("the program named no {name}"));
    let way = if result["snoops"] == true { "seen by the card" } else { "by window pages" };
    let mut out = stdout();
    writeln!(
        out,
        "\nautomatic update: {} round trips of a flag, half of them in at most {:.1} us (stores {way})",
        args.count,
        number("p50_ns")? / 1e3
    )?;
    writeln!(
        out,
        "deliberate update: {UPDATES} MiB, every byte verified, {:.1} MB/s",
        number("bytes_per_second")? / 1e6
    )?;
    writeln!(out, "\n{}", channel::lines(&trips).join("\n"))?;
    Ok(())
}

/// Returns the measurements of the requesting program.
fn measure(lab: &Lab, count: u64) -> anyhow::Result<Value> {
    let count_text = count.to_string();
    let words =
        |what| ["shrimp", "measure", what, "--count", &count_text, "--updates", UPDATES].map(String::from);
    let mut server = lab.vm(0).run(words("serve"))?;
    let listening: Value = server.answer()?;
    ensure!(listening.get("error").is_none(), "the program that answers says {listening}");
    let asked = lab.vm(1).run(words("ask"))?.finish()?.pop();
    let asked = asked.context("the program said nothing of its result")?;
    server.finish()?;
    ensure!(asked["round_trips"] == count && asked["verified"] == true, "the program's result is {asked}");
    Ok(asked)
}
