//! Runs all measurements of CLAN cards.

use crate::clan::choice::{Topic, wanted};
use crate::clan::{
    connections, early, endpoints, joining, labs, raw, requests, server, transfers, watched, words,
};
use crate::engine::machines::{Layout, Machines};
use crate::engine::run::Run;
use crate::engine::track::Track;

/// Measures the requested topics. Latencies use pinned machines. Bandwidth uses unpinned ones, as
/// for other cards: a pinned sender would share its core with the thread that takes its data.
pub(crate) fn measure(run: &mut Run<'_>) -> anyhow::Result<()> {
    let topics = wanted(&run.request.figures, run.request.goals_only);
    let has = |topic| topics.contains(&topic);
    let any = |some: &[Topic]| some.iter().any(|topic| has(*topic));
    if any(&[Topic::Words, Topic::Server, Topic::Requests, Topic::Endpoints]) {
        let clan = labs::clan(run, Layout::Pinned)?;
        if has(Topic::Words) {
            measure_words(run, &clan)?;
        }
        measure_servers(run, &clan, [Topic::Server, Topic::Requests].map(has))?;
        if has(Topic::Endpoints) {
            measure_endpoints(run, &clan)?;
        }
    }
    if any(&[Topic::Raw, Topic::Transfers, Topic::Joining, Topic::Early]) {
        let clan = labs::clan(run, Layout::Fabric)?;
        if has(Topic::Raw) {
            measure_raw(run, &clan)?;
        }
        if has(Topic::Transfers) {
            measure_transfers(run, &clan)?;
        }
        if has(Topic::Joining) {
            measure_joining(run, &clan)?;
        }
        if has(Topic::Early) {
            measure_early(run, &clan)?;
        }
    }
    if has(Topic::Watched) {
        measure_watched(run)?;
    }
    Ok(())
}

fn measure_words(run: &mut Run<'_>, clan: &Machines) -> anyhow::Result<()> {
    let [hamlyn, shrimp] = [labs::hamlyn(run, clan.layout())?, labs::shrimp(run, clan.layout())?];
    let (effort, progress) = (run.request.effort, run.progress);
    let title = "CLAN: a word's round trip (goal 11)";
    let tracks = progress.part(title, || Ok(words::measure(clan, [&hamlyn, &shrimp], effort, progress)))?;
    run.goals.extend(words::goals(&tracks));
    run.others.push(words::table(&tracks));
    run.tables.push(("CLAN: round trips of a word, beside others".to_owned(), tracks));
    Ok(())
}

fn measure_servers(run: &mut Run<'_>, clan: &Machines, [trips, rates]: [bool; 2]) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    if trips {
        let title = "CLAN: a server's round trip (goals 12 and 13)";
        let tracks = progress.part(title, || Ok(server::measure(clan, effort, progress)))?;
        run.goals.extend(server::goals(&tracks));
        run.plots.push(server::figure(&tracks));
        run.others.push(server::table(&tracks));
        let measured =
            progress.part("CLAN: a request at the server's card", || connections::measure(effort))?;
        run.others.push(connections::table(&measured));
        run.tables.push(("CLAN: round trips of the event-driven server".to_owned(), tracks));
    }
    if rates {
        let title = "CLAN: requests a second";
        let tracks = progress.part(title, || Ok(requests::measure(clan, effort, progress)))?;
        run.plots.push(requests::figure(&tracks));
        run.others.push(requests::table(&tracks));
        run.tables.push(("CLAN: requests of the event-driven server".to_owned(), tracks));
    }
    Ok(())
}

fn measure_endpoints(run: &mut Run<'_>, clan: &Machines) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    let title = "CLAN: endpoints that are used again";
    let tracks = progress.part(title, || Ok(endpoints::measure(clan, effort, progress)))?;
    run.others.push(endpoints::table(&tracks));
    run.tables.push(("CLAN: endpoints".to_owned(), tracks));
    Ok(())
}

fn measure_raw(run: &mut Run<'_>, clan: &Machines) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    let measured = progress.part("CLAN: raw bandwidth", || Ok(raw::measure(clan, effort, progress)))?;
    run.plots.push(raw::figure(&measured));
    let tracks: Vec<Track> = measured.into_iter().map(|one| one.track).collect();
    run.tables.push(("CLAN: how fast messages arrive".to_owned(), tracks));
    Ok(())
}

fn measure_transfers(run: &mut Run<'_>, clan: &Machines) -> anyhow::Result<()> {
    let hamlyn = labs::hamlyn(run, clan.layout())?;
    let (effort, progress) = (run.request.effort, run.progress);
    let measured = progress
        .part("CLAN: one-way bandwidth", || Ok(transfers::measure([clan, &hamlyn], effort, progress)))?;
    run.plots.push(transfers::figure(&measured));
    run.others.push(transfers::halves(&measured));
    let tracks: Vec<Track> = measured.into_iter().map(|one| one.track).collect();
    run.tables.push(("CLAN: one-way bandwidth by size, beside others".to_owned(), tracks));
    Ok(())
}

fn measure_joining(run: &mut Run<'_>, clan: &Machines) -> anyhow::Result<()> {
    let unjoined = labs::unjoined(run, clan.layout())?;
    let (effort, progress) = (run.request.effort, run.progress);
    let title = "CLAN: what joining saves";
    let tracks = progress.part(title, || Ok(joining::measure([&unjoined, clan], effort, progress)))?;
    run.others.push(joining::table(&tracks));
    run.tables.push(("CLAN: streams of stores".to_owned(), tracks));
    Ok(())
}

fn measure_early(run: &mut Run<'_>, clan: &Machines) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    let title = "CLAN: woken while the rest arrives";
    let tracks = progress.part(title, || Ok(early::measure(clan, effort, progress)))?;
    run.others.push(early::table(&tracks));
    run.tables.push(("CLAN: arrivals that wake a sleeper".to_owned(), tracks));
    Ok(())
}

fn measure_watched(run: &mut Run<'_>) -> anyhow::Result<()> {
    let effort = run.request.effort;
    let measured =
        run.progress.part("CLAN: what passes armed Tripwires (goal 14)", || watched::measure(effort))?;
    run.goals.extend(watched::goals(&measured));
    run.others.push(watched::table(&measured));
    Ok(())
}
