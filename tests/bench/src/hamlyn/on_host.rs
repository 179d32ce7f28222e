//! Goal 8: programs of the host that use their own cards, without a machine.

use std::path::Path;

use hamlyn_lab::Lab;

use crate::engine::effort::Effort;
use crate::engine::exchange::Exchange;
use crate::engine::foreign::{Foreigners, Peer, UCX, free_port};
use crate::engine::goals::{Goal, Need};
use crate::engine::processes::{Child, children};
use crate::engine::progress::Progress;
use crate::engine::site::Site;
use crate::engine::stats::median;
use crate::engine::track::{Track, find, interleave};
use crate::hamlyn::one_process;
use crate::hamlyn::scale::pair;

/// The processes that carry the messages between two programs of the host.
const LAYOUTS: [(&str, bool, &[&str]); 3] = [
    ("hamlyn fabric", true, &[]),
    ("hamlyn fabric --spin 1000", true, &["--spin", "1000"]),
    ("hamlyn card, hamlyn switch", false, &[]),
];
const TCP: &str = "host, 16-byte TCP over loopback";

fn name(layout: &str) -> String {
    format!("host, 16-byte tagged remote write between two processes, {layout}")
}

/// Measures round trips between two processes of the host, with every layout of cards and switch,
/// and over loopback TCP.
pub fn round_trips(effort: Effort, progress: &Progress) -> anyhow::Result<Vec<Track>> {
    progress.step("start the cards");
    let count = effort.pick(1000, 10_000);
    let mut labs = Vec::new();
    let mut exchanges = Vec::new();
    for (layout, one_process, arguments) in LAYOUTS {
        let before = children()?;
        let builder = Lab::builder().vms(0).spare_cards(2).one_process(one_process);
        let lab = builder.card_args(arguments.iter().copied()).start()?;
        let new = |child: &Child| child.is_service() && !before.contains(child);
        let services: Vec<Child> = children()?.into_iter().filter(new).collect();
        let pair = pair(&lab, &format!("--wait yield --count {count}"))?;
        exchanges.push((name(layout), pair.watching(&services)));
        labs.push(lab);
    }
    let address = format!("--address 127.0.0.1:{} --count {count}", free_port()?);
    let (ping, echo) = (format!("tcp-ping {address}"), format!("tcp-echo {address}"));
    let tcp = Exchange::between(Site::Host(None), &ping, Site::Host(None), &echo);
    exchanges.push((TCP.to_owned(), tcp));
    Ok(interleave(&exchanges, effort.pick(7, 15), progress))
}

/// Goal 8.
pub fn goals(tracks: &[Track], peers: &[Peer]) -> Vec<Goal> {
    let medians = |name: &str| find(tracks, name).map(Track::medians_us).unwrap_or_default();
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
pub fn alone_and_peers(
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
