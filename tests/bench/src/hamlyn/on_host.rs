//! Goal 8: programs of the host that use their own cards, without a machine.

use std::path::Path;

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::foreign::{Foreigners, Peer, UCX, free_port};
use crate::engine::goals::{Goal, Need};
use crate::engine::machines::{Layout, Pair};
use crate::engine::plan::Planned;
use crate::engine::progress::Progress;
use crate::engine::stats::median;
use crate::engine::track::{Track, medians};
use crate::hamlyn::one_process;
use crate::hamlyn::pairs::on_host;

pub(crate) const HOST: Experiment = Experiment {
    name: "host",
    title: "programs of the host at cards (goal 8)",
    heading: "Round trips on the host, with no machine",
    has_goal: true,
    rounds: |effort| effort.pick(7, 15),
    plan,
    also: |run, _, tracks| {
        let (effort, progress) = (run.request.effort, run.progress);
        let folder = run.request.peers.as_deref();
        let alone = progress.part("everything in one process, UCX and libfabric (goal 8)", || {
            alone_and_peers(folder, effort, progress)
        });
        if let Some((alone, peers)) = run.noted(alone) {
            tracks.push(alone);
            run.peers = peers;
        }
        run.goals.extend(goals(tracks, &run.peers));
        Ok(())
    },
    ..Experiment::NEW
};

/// The processes that carry the messages between two programs of the host.
const LAYOUTS: [(&str, Pair); 3] = [
    ("hamlyn fabric", on_host(2)),
    ("hamlyn fabric --spin 1000", Pair { card_args: "--spin 1000", ..on_host(2) }),
    ("hamlyn card, hamlyn switch", Pair { layout: Layout::Separate, ..on_host(2) }),
];
const TCP: &str = "host, 16-byte TCP over loopback";

fn name(layout: &str) -> String {
    format!("host, 16-byte tagged remote write between two processes, {layout}")
}

/// Plans round trips between two processes of the host, with every layout of cards and switch, and
/// over loopback TCP.
fn plan(effort: Effort) -> Vec<Planned> {
    let count = effort.pick(1000, 10_000);
    let card = |(layout, pair): &(&str, Pair)| {
        pair.trips(name(layout), "card", &format!("--wait yield --count {count}"))
    };
    let tcp = free_port().map(|port| {
        let arguments = format!("--address 127.0.0.1:{port} --count {count}");
        LAYOUTS[0].1.trips(TCP, "tcp", &arguments).on_host()
    });
    LAYOUTS.iter().map(card).chain(tcp).collect()
}

/// Goal 8.
fn goals(tracks: &[Track], peers: &[Peer]) -> Vec<Goal> {
    let medians = |name: &str| medians(tracks, name);
    let p50 = |layout: &str| median(medians(&name(layout)));
    let layouts = LAYOUTS.iter().filter_map(|(layout, ..)| Some((*layout, p50(layout)?)));
    let layout = layouts.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(LAYOUTS[0].0, |best| best.0);
    let separate_name = format!("host, two applications and {layout}: p50");
    let (separate, tcp, alone) = (medians(&name(layout)), medians(TCP), medians(one_process::NAME));
    let ucx =
        peers.iter().find(|peer| peer.name == UCX).map(|peer| peer.rounds_us.clone()).unwrap_or_default();
    let (tcp, ucx) = (("loopback TCP", &tcp[..]), ("UCX posix", &ucx[..]));
    vec![
        Goal::beside(8, &separate_name, "us", &separate, tcp, Need::RatioAtMost(1.0)),
        Goal::beside(8, "everything in one process: p50", "us", &alone, ucx, Need::RatioAtMost(10.0)),
    ]
}

/// Measures everything in one process, in turn with UCX and libfabric from the folder into which
/// they were fetched.
fn alone_and_peers(
    folder: Option<&Path>,
    effort: Effort,
    progress: &Progress,
) -> anyhow::Result<(Track, Vec<Peer>)> {
    let (mut alone, rounds) = (one_process::track(), effort.pick(5, 9));
    let mut foreigners = folder.map(Foreigners::of);
    for round in 1..=rounds {
        let which = format!("round {round} of {rounds}");
        progress.step(&format!("{} ({which})", alone.name));
        alone.rounds.push(one_process::round(effort)?);
        if let Some(foreigners) = &mut foreigners {
            foreigners.round(&which, progress);
        }
    }
    Ok((alone, foreigners.map(Foreigners::into_peers).unwrap_or_default()))
}
