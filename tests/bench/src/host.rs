//! Goal 8: programs of the host at cards of their own, with no machine between.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use hamlyn_cli::lab::Lab;

use crate::effort::Effort;
use crate::exchange::{Exchange, words};
use crate::goals::{Goal, Need};
use crate::one_process;
use crate::processes::{Child, children};
use crate::progress::Progress;
use crate::scale::pair;
use crate::site::{HostProgram, Site};
use crate::stats::median;
use crate::track::{Track, find, interleave};

/// What carries the messages between two programs of the host: other processes than theirs.
const LAYOUTS: [(&str, bool, &[&str]); 3] = [
    ("hamlyn fabric", true, &[]),
    ("hamlyn fabric --spin 1000", true, &["--spin", "1000"]),
    ("hamlyn card, hamlyn switch", false, &[]),
];
const TCP: &str = "host, 16-byte TCP over loopback";

fn name(layout: &str) -> String {
    format!("host, 16-byte tagged remote write between two processes, {layout}")
}

/// Round trips between two processes of the host, by every layout of cards and switch, and over loopback TCP.
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

/// A round trip by a program of others, in microseconds.
#[derive(Debug, Clone)]
pub struct Peer {
    /// What it is.
    pub name: &'static str,
    /// The rounds, in microseconds.
    pub rounds_us: Vec<f64>,
    /// How it was measured.
    pub commands: [String; 2],
}

/// UCX's name among the peers.
pub const UCX: &str = "UCX, posix active message, 16 bytes (p50)";

impl Peer {
    /// The median of the rounds, in microseconds.
    pub fn round_trip_us(&self) -> Option<f64> {
        median(self.rounds_us.clone())
    }
}

/// Everything in one process, and in turn with it, from the folder that they were fetched into, UCX and libfabric.
pub fn alone_and_peers(
    folder: Option<&Path>,
    effort: Effort,
    progress: &Progress,
) -> anyhow::Result<(Track, Vec<Peer>)> {
    let (mut alone, rounds) = (one_process::track(), effort.pick(5, 9));
    let mut peers: Vec<_> = folder.map(|_| foreigners()).unwrap_or_default();
    for round in 1..=rounds {
        progress.step(&format!("{} (round {round} of {rounds})", alone.name));
        alone.rounds.push(one_process::round(effort)?);
        for foreigner in &mut peers {
            let name = foreigner.peer.name;
            if foreigner.failed {
                continue;
            }
            progress.step(&format!("{name} (round {round} of {rounds})"));
            if let Err(error) = folder.map_or(Ok(()), |folder| foreigner.measure(folder)) {
                progress.note(&format!("{name}: {error:#}"));
                foreigner.failed = true;
            }
        }
    }
    Ok((alone, peers.into_iter().map(|foreigner| foreigner.peer).collect()))
}

/// A pair of programs of others.
struct Foreigner {
    peer: Peer,
    line: String,
    ports: Ports,
    parse: Parse,
    failed: bool,
}

impl Foreigner {
    fn measure(&mut self, folder: &Path) -> anyhow::Result<()> {
        let text = foreign(folder, &self.line, self.ports)?;
        let one_way = (self.parse)(&text).with_context(|| format!("no latency in {text:?}"))?;
        // All of them report one way.
        self.peer.rounds_us.push(one_way * 2.0);
        Ok(())
    }
}

fn foreigners() -> Vec<Foreigner> {
    let ucx = "ucx_perftest -P 0 -t am_lat -x posix -d memory -s 16 -w 1000 -n 20000 -f -v";
    let fabric = |provider: &str| format!("fi_pingpong -p {provider} -e rdm -S 16 -I 500");
    let plans: [(&'static str, String, Ports, Parse); 3] = [
        (UCX, ucx.to_owned(), ["-p", "-p"], ucx_latency),
        ("libfabric, shm, 16 bytes (mean)", fabric("shm"), ["-B", "-P"], fabric_latency),
        ("libfabric, tcp, 16 bytes (mean)", fabric("tcp"), ["-B", "-P"], fabric_latency),
    ];
    let plan = |(name, line, ports, parse): (&'static str, String, Ports, Parse)| {
        let commands = [format!("host$ {line}"), format!("host$ {line} 127.0.0.1")];
        let peer = Peer { name, rounds_us: Vec::new(), commands };
        Foreigner { peer, line, ports, parse, failed: false }
    };
    plans.map(plan).into()
}

/// How often a client is started until its server listens.
const TRIES: u32 = 10;

/// How the server and the client of a pair are told the server's port.
type Ports = [&'static str; 2];
/// Finds the one-way time, in microseconds, in what the client said.
type Parse = fn(&str) -> Option<f64>;

/// Runs a pair of a foreign program, and returns what the client said.
fn foreign(folder: &Path, line: &str, ports: Ports) -> anyhow::Result<String> {
    let port = free_port()?.to_string();
    let start = |option: &str, more: &[&str]| {
        let mut arguments = words(line);
        arguments.extend([option, &port].into_iter().chain(more.iter().copied()).map(str::to_owned));
        let (loader, arguments) = in_root(folder, &arguments)?;
        HostProgram::start(&loader, &arguments, None)
    };
    let mut server = start(ports[0], &[])?;
    let mut text = Err(anyhow!("no client was started"));
    // The server does not say when it listens, and a client that comes too early ends.
    for _ in 0..TRIES {
        sleep(Duration::from_millis(400));
        text = start(ports[1], &["127.0.0.1"])?.finish_text();
        if text.is_ok() {
            break;
        }
    }
    let text = text?;
    server.finish_text()?;
    Ok(text)
}

/// A program of a root of unpacked packages: its own loader starts it with its own libraries.
pub(crate) fn in_root(root: &Path, command: &[String]) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let Some((program, arguments)) = command.split_first() else { bail!("there is no program to start") };
    let path = |end: &str| root.join(end).to_string_lossy().into_owned();
    let program = path(&format!("usr/bin/{program}"));
    let mut all = vec!["--library-path".to_owned(), path("usr/lib/x86_64-linux-gnu"), program];
    all.extend_from_slice(arguments);
    Ok((root.join("usr/lib64/ld-linux-x86-64.so.2"), all))
}

/// From a table in CSV: `iterations,50.0_percentile_lat,...`, and a line of numbers.
fn ucx_latency(text: &str) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("iterations,"));
    let column = lines.next()?.split(',').position(|name| name.ends_with("percentile_lat"))?;
    lines.next()?.split(',').nth(column)?.parse().ok()
}

/// From a table: `bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec`, and a line of numbers.
fn fabric_latency(text: &str) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("bytes"));
    let column = lines.next()?.split_whitespace().position(|name| name == "usec/xfer")?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

/// A port of loopback that nobody listens on now.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr().context("a port without a number")?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ucxs_table_is_read() {
        let text =
            "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw\n20000,0.536,12.378,37.394,1.23\n";
        assert_eq!(ucx_latency(text), Some(0.536));
        assert_eq!(ucx_latency("error: no such device\n"), None);
    }

    #[test]
    fn libfabrics_table_is_read() {
        let text = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                    16      2k      =2k      62k         0.00s     48.01       0.33       3.03\n";
        assert_eq!(fabric_latency(text), Some(0.33));
        assert_eq!(fabric_latency("bytes\n"), None);
    }

    #[test]
    fn a_foreign_program_is_started_by_its_own_loader() {
        let (loader, arguments) = in_root(Path::new("/r"), &words("ucx_perftest -p 1")).unwrap();
        assert_eq!(loader, Path::new("/r/usr/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(arguments[2..], ["/r/usr/bin/ucx_perftest", "-p", "1"]);
        assert!(in_root(Path::new("/r"), &[]).is_err());
    }
}
