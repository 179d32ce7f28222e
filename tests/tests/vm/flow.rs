//! Flow control (section 2.8): backpressure up to the sender, no loss, and fair shares for
//! competing senders.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::Value;

use crate::messages::{ping_pong, transfer};
use crate::{lab_of, shared, text};

const COUNT: &str = "5000";
/// A sender and a receiver wait for as long as a card is held, which is until other traffic is
/// done.
const PATIENCE: [&str; 2] = ["--timeout", "300"];

/// Runs a sender that never waits against a slow receiver. No message is lost.
pub(crate) fn backlog(lab: &Lab, from: usize, to: usize) -> Result<()> {
    let (receiver, ticket) = receive(lab, to)?;
    let sender = send(lab, from, &ticket)?;
    finish(receiver, sender).map(drop)
}

/// The same while the receiver's card is stopped at first: the sender's work queue fills up.
fn held_up(lab: &Lab, from: usize, to: usize) -> Result<()> {
    let (receiver, ticket) = receive(lab, to)?;
    let held = lab.hold_card(to)?;
    let mut sender = send(lab, from, &ticket)?;
    let number = sender.answer()?["held_up"].as_u64().context("it was not held up")?;
    drop(held);
    let sent = finish(receiver, sender)?;
    ensure!(number < 5000 && sent["would_block"].as_u64() > Some(0), "{sent}");
    Ok(())
}

fn receive(lab: &Lab, to: usize) -> Result<(Run, String)> {
    let receive = ["backlog", "receive", "--count", COUNT, "--size", "4096", "--delay-us", "20"];
    let receive = [&receive[..], &PATIENCE].concat();
    let mut receiver = lab.vm(to).run(receive)?;
    let ticket = text(&receiver.answer()?, "ticket");
    Ok((receiver, ticket))
}

fn send(lab: &Lab, from: usize, ticket: &str) -> Result<Run> {
    let send = ["backlog", "send", "--ticket", ticket, "--count", COUNT, "--size", "4096"];
    lab.vm(from).run([&send[..], &PATIENCE].concat())
}

/// Checks that everything was sent and received. Returns the sender's result.
fn finish(mut receiver: Run, mut sender: Run) -> Result<Value> {
    let sent = sender.finish()?.pop().context("a result")?;
    ensure!(sent["sent"] == 5000, "{sent}");
    let received = receiver.finish()?.pop().context("a result")?;
    ensure!(received["lost"] == 0 && received["received"] == 5000, "{received}");
    ensure!(received["verified"] == true, "{received}");
    Ok(sent)
}

/// Long messages, so that a machine on a busy host does not run out of them.
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
fn slow_receiver_blocks_its_sender_without_loss() -> Result<()> {
    let lab = shared();
    held_up(&lab, 0, 1)?;
    backlog(&lab, 1, 1)
}

#[test]
fn stalled_card_does_not_block_other_traffic() -> Result<()> {
    // The card must not be detached, however slow this machine is.
    let lab = lab_of(Lab::builder().vms(3).switch_args(["--stall-timeout", "0"]));
    let (receiver, ticket) = receive(&lab, 1)?;
    let held = lab.hold_card(1)?;
    let mut sender = send(&lab, 0, &ticket)?;
    ensure!(sender.answer()?["held_up"].is_u64(), "it was not held up");
    // Traffic from and to the same card whose messages to the stalled card wait.
    ping_pong(&lab, 0, 2, 200)?;
    transfer(&lab, 0, 2, 1 << 20)?;
    ping_pong(&lab, 2, 0, 200)?;
    drop(held);
    finish(receiver, sender).map(drop)
}

#[test]
fn busy_termini_share_bandwidth_by_weight() -> Result<()> {
    let lab = shared();
    for weights in ["1,1,1,1", "1,2,4"] {
        let result = shares(&lab, 0, weights)?;
        ensure!(result["spread"].as_f64().is_some_and(|spread| spread < 0.1), "weights {weights}: {result}");
    }
    // Only the operating system may grant more than a process's share.
    let refused = shares(&lab, 1001, "1,2")?;
    ensure!(text(&refused, "error").contains("not permitted"), "{refused}");
    Ok(())
}
