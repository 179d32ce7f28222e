//! Runs all measurements of SHRIMP cards.

use crate::engine::machines::Layout;
use crate::engine::run::Run;
use crate::shrimp::bystanders;
use crate::shrimp::choice::{Topic, wanted};
use crate::shrimp::flags;
use crate::shrimp::labs::Labs;
use crate::shrimp::stores;
use crate::shrimp::updates;

/// Measures the requested topics. Latencies use pinned machines. Bandwidth uses unpinned ones, as
/// for Hamlyn cards: a pinned sender would share its core with the thread that takes its data.
pub(crate) fn measure(run: &mut Run<'_>) -> anyhow::Result<()> {
    let topics = wanted(&run.request.figures, run.request.goals_only);
    let has = |topic| topics.contains(&topic);
    if has(Topic::Flags) || has(Topic::Bystanders) {
        let labs = Labs::start(run, Layout::Pinned)?;
        if has(Topic::Flags) {
            measure_flags(run, &labs)?;
        }
        if has(Topic::Bystanders) {
            measure_bystanders(run, &labs);
        }
    }
    if has(Topic::Updates) || has(Topic::Stores) {
        let labs = Labs::start(run, Layout::Fabric)?;
        if has(Topic::Updates) {
            measure_updates(run, &labs)?;
        }
        if has(Topic::Stores) {
            measure_stores(run, &labs)?;
        }
    }
    Ok(())
}

fn measure_flags(run: &mut Run<'_>, labs: &Labs) -> anyhow::Result<()> {
    let (effort, all, progress) = (run.request.effort, !run.request.goals_only, run.progress);
    let title = "SHRIMP: a flag's round trip (goal 10)";
    let tracks = progress.part(title, || Ok(flags::measure(labs, effort, all, progress)))?;
    run.goals.extend(flags::goals(&tracks));
    run.others.push(flags::table(&tracks));
    run.tables.push(("SHRIMP: round trips of a flag, beside others".to_owned(), tracks));
    Ok(())
}

fn measure_updates(run: &mut Run<'_>, labs: &Labs) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    let measured =
        progress.part("SHRIMP: deliberate update", || Ok(updates::measure(labs, effort, progress)))?;
    run.plots.push(updates::figure(&measured));
    let tracks = measured.into_iter().map(|one| one.track).collect();
    run.tables.push(("SHRIMP: one-way bandwidth by size, beside others".to_owned(), tracks));
    Ok(())
}

fn measure_stores(run: &mut Run<'_>, labs: &Labs) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    let tracks =
        progress.part("SHRIMP: what merging saves", || Ok(stores::measure(labs, effort, progress)))?;
    run.others.push(stores::table(&tracks));
    run.tables.push(("SHRIMP: streams of stores".to_owned(), tracks));
    Ok(())
}

fn measure_bystanders(run: &mut Run<'_>, labs: &Labs) {
    let (effort, progress) = (run.request.effort, run.progress);
    let tracks = progress
        .part("SHRIMP: programs that do not communicate", || bystanders::measure(labs, effort, progress));
    if let Some(tracks) = run.noted(tracks) {
        run.others.push(bystanders::table(&tracks));
        run.tables.push(("SHRIMP: loops of programs that do not communicate".to_owned(), tracks));
    }
}
