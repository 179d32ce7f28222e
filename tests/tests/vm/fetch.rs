//! Remote fetch-and-op: counters and locks shared by processes of several machines.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};

use crate::{eventually, lab, shared, text};

/// Processes of several machines count on one word, and take turns with a lock on another.
pub(crate) fn count_together(lab: &Lab, server: usize, clients: &[usize]) -> Result<()> {
    let mut serve = lab.vm(server).run(["counter", "serve"])?;
    let ticket = text(&serve.answer()?, "ticket");
    for (verb, each) in [("add", 200), ("lock", 20)] {
        let count = each.to_string();
        let mut runs: Vec<Run> = clients
            .iter()
            .map(|vm| lab.vm(*vm).run(["counter", verb, "--ticket", &ticket, "--count", &count]))
            .collect::<Result<_>>()?;
        for run in &mut runs {
            run.finish()?;
        }
    }
    serve.close_stdin()?;
    let sums = serve.finish()?;
    let sums = sums.last().context("the sums")?;
    ensure!(sums["value"] == 200 * clients.len() && sums["guarded"] == 20 * clients.len(), "{sums}");
    ensure!(sums["lock"] == 0, "{sums}");
    Ok(())
}

#[test]
fn fetch_and_op_is_atomic_and_needs_permission() -> Result<()> {
    let lab = shared();
    // A process of the server's own machine counts, too. It uses the card, like the others.
    count_together(&lab, 0, &[1, 1, 0])?;
    let mut serve = lab.vm(0).run(["counter", "serve", "--forbid"])?;
    let ticket = text(&serve.answer()?, "ticket");
    let mut add = lab.vm(1).run(["counter", "add", "--ticket", &ticket, "--count", "1"])?;
    let error = add.answer()?;
    ensure!(text(&error, "error").contains("refused_by_destination"), "{error}");
    ensure!(lab.card_counters(0)?["card"]["refused_fetch"] == 1);
    serve.close_stdin()?;
    ensure!(serve.finish()?.last().context("the sums")?["value"] == 0);
    Ok(())
}

#[test]
fn unanswered_fetch_times_out() -> Result<()> {
    let lab = lab(2);
    let mut serve = lab.vm(0).run(["counter", "serve"])?;
    let ticket = text(&serve.answer()?, "ticket");
    lab.vm(0).kill()?;
    eventually(|| Ok(lab.card_counters(0)?["enabled"] == false), "the card has lost its machine")?;
    let mut add = lab.vm(1).run(["counter", "add", "--ticket", &ticket, "--count", "1"])?;
    let error = add.answer()?;
    ensure!(text(&error, "error").contains("refused_unanswered"), "{error}");
    Ok(())
}
