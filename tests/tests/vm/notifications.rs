//! Notification (section 2.6): several slots on one queue, which processes are interrupted and how
//! often, and overrun.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::Lab;
use serde_json::Value;

use crate::{eventually, shared, text};

const MESSAGES: &str = "10000";

/// Sends messages to four slots on one queue. Returns the counters of the receiver's card.
fn notified(lab: &Lab, asleep: bool, send: &[&str]) -> Result<Value> {
    let mut receive = vec!["notify", "receive", "--slots", "4", "--messages", MESSAGES];
    receive.extend(asleep.then_some("--asleep"));
    let mut receiver = lab.vm(1).run(receive)?;
    let tickets = receiver.answer()?;
    let tickets: Vec<&str> =
        tickets["tickets"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let tickets = tickets.join(",");
    let fixed = ["notify", "send", "--tickets", &tickets, "--messages", MESSAGES];
    lab.vm(0).run(fixed.iter().chain(send).copied())?.finish()?;
    let result = receiver.finish()?.pop().context("a result")?;
    ensure!(result["messages"] == 10_000, "{result}");
    ensure!(
        result["by_slot"].as_array().is_some_and(|slots| slots.iter().all(|slot| *slot == 2500)),
        "{result}"
    );
    Ok(result)
}

fn interrupts(result: &Value) -> u64 {
    result["interrupts"].as_u64().unwrap_or(u64::MAX)
}

#[test]
fn only_sleepers_are_interrupted_and_only_on_request() -> Result<()> {
    let lab = shared();
    let awake = notified(&lab, false, &["--ask", "all"])?;
    ensure!(interrupts(&awake) == 0, "awake: {awake}");
    let unasked = notified(&lab, false, &["--ask", "none"])?;
    ensure!(interrupts(&unasked) == 0, "{unasked}");
    // A sleeper is woken, but not once for each message while it has enough to do. The exact number
    // depends on the host.
    let asleep = notified(&lab, true, &["--ask", "all"])?;
    ensure!((1..=10_000).contains(&interrupts(&asleep)), "asleep: {asleep}");
    let last = notified(&lab, true, &["--ask", "last"])?;
    ensure!((1..=158).contains(&interrupts(&last)), "one in 64 asks: {last}");
    println!("interrupts in 10,000 messages: awake 0, asleep {asleep}, one in 64 asks {last}");
    Ok(())
}

#[test]
fn overrun_queue_reports_what_was_lost() -> Result<()> {
    let lab = shared();
    let mut receiver = lab.vm(1).run(["overrun", "receive", "--entries", "8", "--count", "1000"])?;
    let ticket = text(&receiver.answer()?, "ticket");
    lab.vm(0).run(["overrun", "send", "--ticket", &ticket, "--count", "1000"])?.finish()?;
    // The sender finishes when its card has sent. Some messages may still be in flight.
    let notified = || Ok(lab.card_counters(1)?["card"]["notifications"].as_u64() >= Some(1000));
    eventually(notified, "all have arrived")?;
    receiver.say("read now")?;
    let result = receiver.finish()?.pop().context("a result")?;
    ensure!(result["exact"] == true && result["lost"] == 992 && result["received"] == 8, "{result}");
    ensure!(result["overruns"] == 1 && result["in_order"] == true, "{result}");
    // The receiver reads meanwhile, sleeps in between, and is too slow for the sender.
    let mut receiver =
        lab.vm(1).run(["overrun", "receive", "--entries", "8", "--count", "1000", "--slow"])?;
    let ticket = text(&receiver.answer()?, "ticket");
    lab.vm(0).run(["overrun", "send", "--ticket", &ticket, "--count", "1000"])?.finish()?;
    let result = receiver.finish()?.pop().context("a result")?;
    ensure!(result["exact"] == true && result["in_order"] == true, "{result}");
    Ok(())
}
