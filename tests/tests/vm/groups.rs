//! Group receive (section 2.5): one notification for the messages of several senders, and a barrier
//! built on it.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::Value;

use crate::{shared, text};

fn shares(answer: &Value) -> Result<Vec<String>> {
    let shares = answer["shares"].as_array().with_context(|| format!("no shares in {answer}"))?;
    shares.iter().map(|share| share.as_str().map(str::to_owned).context("a share is text")).collect()
}

/// Gives each sender a share of a group's message. The first sender delegates its share to two
/// others.
pub(crate) fn gather(lab: &Lab, to: usize, senders: &[usize], one_shot: bool) -> Result<()> {
    let parts = senders.len().to_string();
    let mut receive = vec!["gather", "receive", "--parts", &parts];
    receive.extend(one_shot.then_some("--one-shot"));
    let mut receiver = lab.vm(to).run(receive)?;
    let shares_of_all = shares(&receiver.answer()?)?;
    let mut runs = Vec::new();
    for (index, (vm, share)) in senders.iter().zip(&shares_of_all).enumerate() {
        let mut send = |share: &str, messages: &str| -> Result<()> {
            runs.push(lab.vm(*vm).run(["gather", "send", "--share", share, "--messages", messages])?);
            Ok(())
        };
        if index == 0 {
            let split = lab.vm(*vm).run(["gather", "split", "--share", share, "--parts", "2"])?.finish()?;
            for delegate in shares(split.last().context("shares")?)? {
                send(&delegate, "1")?;
            }
        } else {
            // Scatter-gather: several messages of one sender.
            send(share, "3")?;
        }
    }
    for mut run in runs {
        run.finish()?;
    }
    let result = receiver.finish()?;
    let result = result.last().context("a result")?;
    ensure!(result["verified"] == true && result["notifications"] == 1, "{result}");
    Ok(())
}

/// Runs a barrier with a process on each of the machines, for several rounds.
pub(crate) fn barrier(lab: &Lab, machines: &[usize], rounds: u32) -> Result<()> {
    let (of, rounds) = (machines.len().to_string(), rounds.to_string());
    let mut runs: Vec<Run> = machines
        .iter()
        .enumerate()
        .map(|(index, vm)| {
            lab.vm(*vm).run(["barrier", "--index", &index.to_string(), "--of", &of, "--rounds", &rounds])
        })
        .collect::<Result<_>>()?;
    let answers = runs.iter_mut().map(Run::answer).collect::<Result<Vec<_>>>()?;
    for run in &mut runs {
        for answer in &answers {
            run.say(&text(answer, "ticket"))?;
        }
        run.say(&text(&answers[0], "counter"))?;
    }
    // The first process has the counter that proves that none was early, so it exits last.
    for (index, run) in runs.iter_mut().enumerate().rev() {
        if index == 0 {
            run.close_stdin()?;
        }
        let result = run.finish()?;
        let result = result.last().context("a result")?;
        ensure!(result["verified"] == true && result["early"] == 0, "process {index}: {result}");
    }
    Ok(())
}

#[test]
fn a_group_of_senders_makes_one_notification() -> Result<()> {
    let lab = shared();
    gather(&lab, 0, &[1, 1, 0], false)?;
    gather(&lab, 1, &[0, 1], true)?;
    barrier(&lab, &[0, 1], 300)?;
    // Two of the processes on one machine.
    barrier(&lab, &[0, 1, 1], 100)
}
