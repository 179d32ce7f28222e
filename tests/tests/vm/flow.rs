//! Flow control (section 2.8): back-pressure as far as the sender, no loss, and fair shares for who competes.

use anyhow::{Context, Result, ensure};
use hamlyn_cli::lab::Lab;
use serde_json::Value;

use crate::{lab, text};

/// A sender that never waits against a receiver that takes its time: nothing is lost.
pub(crate) fn backlog(lab: &Lab, from: usize, to: usize) -> Result<()> {
    let mut receiver =
        lab.vm(to).run(["backlog", "receive", "--count", "5000", "--size", "4096", "--delay-us", "20"])?;
    let ticket = text(&receiver.answer()?, "ticket");
    let send = ["backlog", "send", "--ticket", &ticket, "--count", "5000", "--size", "4096"];
    let sent = lab.vm(from).run(send)?.finish()?.pop().context("a result")?;
    ensure!(sent["sent"] == 5000 && sent["would_block"].as_u64() > Some(0), "{sent}");
    let received = receiver.finish()?.pop().context("a result")?;
    ensure!(received["lost"] == 0 && received["received"] == 5000, "{received}");
    ensure!(received["verified"] == true, "{received}");
    Ok(())
}

/// Long messages: a machine on a busy host must not be seen to run out of them.
const SIZE: &str = "1048576";

fn shares(lab: &Lab, uid: u32, weights: &str) -> Result<Value> {
    let mut sink = lab.vm(1).run(["flood", "sink", "--bytes", SIZE])?;
    let ticket = text(&sink.answer()?, "ticket");
    let share = ["shares", "--ticket", &ticket, "--weights", weights, "--seconds", "3", "--size", SIZE];
    let mut run = lab.vm(0).run_as(uid, share)?;
    let result = run.answer()?;
    run.wait()?;
    sink.close_stdin()?;
    sink.finish()?;
    Ok(result)
}

#[test]
fn a_slow_receiver_holds_its_sender_up_and_loses_nothing() -> Result<()> {
    let lab = lab(2);
    backlog(&lab, 0, 1)?;
    backlog(&lab, 1, 1)
}

#[test]
fn busy_termini_get_equal_bandwidth_or_as_their_weights_say() -> Result<()> {
    let lab = lab(2);
    for weights in ["1,1,1,1", "1,2,4"] {
        let result = shares(&lab, 0, weights)?;
        ensure!(result["spread"].as_f64() < Some(0.1), "weights {weights}: {result}");
    }
    // More than its share is for the operating system to give.
    let refused = shares(&lab, 1001, "1,2")?;
    ensure!(text(&refused, "error").contains("not permitted"), "{refused}");
    Ok(())
}
