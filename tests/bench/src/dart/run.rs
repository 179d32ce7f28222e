//! Runs all measurements of DART cards.

use crate::dart::choice::{Topic, wanted};
use crate::dart::{alone, barriers, blocks, deposits, filtering, labs, paging, questions};
use crate::engine::machines::{Layout, Machines};
use crate::engine::run::Run;
use crate::engine::track::Track;

/// Measures the requested topics. Latencies use pinned machines. Bandwidth uses unpinned ones, as
/// for other cards: a pinned sender would share its core with the thread that takes its data.
pub(crate) fn measure(run: &mut Run<'_>) -> anyhow::Result<()> {
    let topics = wanted(&run.request.figures, run.request.goals_only);
    let has = |topic| topics.contains(&topic);
    if topics.iter().any(|topic| ![Topic::Blocks, Topic::Alone].contains(topic)) {
        let dart = labs::dart(run, Layout::Pinned)?;
        if has(Topic::Deposits) || has(Topic::Questions) {
            measure_messages(run, &dart, [Topic::Deposits, Topic::Questions].map(has))?;
        }
        if has(Topic::Barriers) {
            measure_barriers(run, &dart)?;
        }
        if has(Topic::Filtering) {
            measure_filtering(run, &dart)?;
        }
        if has(Topic::Paging) {
            measure_paging(run, &dart)?;
        }
    }
    if has(Topic::Blocks) {
        measure_blocks(run)?;
    }
    if has(Topic::Alone) {
        let effort = run.request.effort;
        let measured = run.progress.part("DART: the cards alone", || alone::measure(effort))?;
        run.others.push(alone::table(&measured));
    }
    Ok(())
}

fn measure_messages(run: &mut Run<'_>, dart: &Machines, [trips, asked]: [bool; 2]) -> anyhow::Result<()> {
    let clan = run.machines_of("clan", dart.layout(), false)?;
    let (effort, progress) = (run.request.effort, run.progress);
    if trips {
        let of = |model: &str| run.machines_of(model, dart.layout(), model == "hamlyn");
        let [hamlyn, shrimp] = [of("hamlyn")?, of("shrimp")?];
        let peers = [&hamlyn, &shrimp, &clan];
        let title = "DART: a deposit of 32 bytes (goal 15)";
        let tracks = progress.part(title, || Ok(deposits::measure(dart, peers, effort, progress)))?;
        run.goals.extend(deposits::goals(&tracks));
        run.others.push(deposits::table(&tracks));
        run.tables.push(("DART: round trips of 32 bytes, beside others".to_owned(), tracks));
    }
    if asked {
        let title = "DART: questions that a card answers (goal 16)";
        let tracks = progress.part(title, || Ok(questions::measure([dart, &clan], effort, progress)))?;
        run.goals.extend(questions::goals(&tracks));
        run.others.push(questions::table(&tracks));
        run.tables.push(("DART: questions".to_owned(), tracks));
    }
    Ok(())
}

fn measure_barriers(run: &mut Run<'_>, dart: &Machines) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    let tracks = progress.part("DART: barriers", || Ok(barriers::measure(dart, effort, progress)))?;
    run.plots.push(barriers::figure(&tracks));
    run.others.push(barriers::table(&tracks));
    run.tables.push(("DART: barriers of 2 to 16".to_owned(), tracks));
    Ok(())
}

fn measure_filtering(run: &mut Run<'_>, dart: &Machines) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    let title = "DART: what a message costs the receiving host (goal 17)";
    let tracks = progress.part(title, || Ok(filtering::measure(dart, effort, progress)))?;
    run.goals.extend(filtering::goals(&tracks));
    run.others.push(filtering::table(&tracks));
    run.tables.push(("DART: messages that the host hears of, or not".to_owned(), tracks));
    Ok(())
}

fn measure_paging(run: &mut Run<'_>, dart: &Machines) -> anyhow::Result<()> {
    labs::add_swap(dart)?;
    let (effort, progress) = (run.request.effort, run.progress);
    let tracks = progress.part("DART: virtual memory", || Ok(paging::measure(dart, effort, progress)))?;
    run.others.push(paging::table(&tracks));
    run.tables.push(("DART: reads of pages that are there or not".to_owned(), tracks));
    Ok(())
}

fn measure_blocks(run: &mut Run<'_>) -> anyhow::Result<()> {
    let [dart, wide] = [labs::dart(run, Layout::Fabric)?, labs::wide(run, Layout::Fabric)?];
    let hamlyn = run.machines_of("hamlyn", dart.layout(), true)?;
    let (effort, progress) = (run.request.effort, run.progress);
    let machines = [&dart, &wide, &hamlyn];
    let measured =
        progress.part("DART: one-way bandwidth", || Ok(blocks::measure(machines, effort, progress)))?;
    run.plots.push(blocks::figure(&measured));
    run.others.push(blocks::table(&measured));
    let tracks: Vec<Track> = measured.into_iter().map(|one| one.track).collect();
    run.tables.push(("DART: one-way bandwidth by size, beside others".to_owned(), tracks));
    Ok(())
}
