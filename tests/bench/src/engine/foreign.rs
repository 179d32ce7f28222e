//! Third-party programs on the host: UCX and libfabric, from the folder into which they were
//! fetched.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};

use crate::engine::exchange::words;
use crate::engine::progress::Progress;
use crate::engine::site::HostProgram;
use crate::engine::stats::median;

/// A round trip of a third-party program, in microseconds.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Name of the measurement.
    pub name: &'static str,
    /// Times of the rounds, in microseconds.
    pub rounds_us: Vec<f64>,
    /// The commands that measured it.
    pub commands: [String; 2],
}

/// UCX's name among the peers.
pub const UCX: &str = "UCX, posix active message, 16 bytes (p50)";

impl Peer {
    /// Returns the median of the rounds, in microseconds.
    pub fn round_trip_us(&self) -> Option<f64> {
        median(self.rounds_us.clone())
    }
}

/// All third-party programs, to be measured in turn with this project's own.
#[derive(Debug)]
pub struct Foreigners<'a> {
    folder: &'a Path,
    all: Vec<Foreigner>,
}

impl<'a> Foreigners<'a> {
    /// Uses the programs of this folder.
    pub fn of(folder: &'a Path) -> Self {
        Self { folder, all: foreigners() }
    }

    /// Measures one round of each. A program that failed is not tried again.
    pub fn round(&mut self, which: &str, progress: &Progress) {
        for foreigner in self.all.iter_mut().filter(|foreigner| !foreigner.failed) {
            let name = foreigner.peer.name;
            progress.step(&format!("{name} ({which})"));
            if let Err(error) = foreigner.measure(self.folder) {
                progress.note(&format!("{name}: {error:#}"));
                foreigner.failed = true;
            }
        }
    }

    /// Returns the results.
    pub fn into_peers(self) -> Vec<Peer> {
        self.all.into_iter().map(|foreigner| foreigner.peer).collect()
    }
}

/// A pair of third-party programs.
#[derive(Debug)]
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
        // All of them report one-way times.
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

/// Number of times that a client is started until its server listens.
const TRIES: u32 = 10;

/// The options for the server's port, of the server and of the client.
type Ports = [&'static str; 2];
/// Finds the one-way time, in microseconds, in the client's output.
type Parse = fn(&str) -> Option<f64>;

/// Runs a pair of third-party programs, and returns the client's output.
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
    // The server does not report when it listens, and a client that starts too early exits.
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

/// Returns the command for a program in a root of unpacked packages. Its own loader starts it with
/// its own libraries.
pub(crate) fn in_root(root: &Path, command: &[String]) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let Some((program, arguments)) = command.split_first() else { bail!("there is no program to start") };
    let path = |end: &str| root.join(end).to_string_lossy().into_owned();
    let program = path(&format!("usr/bin/{program}"));
    let mut all = vec!["--library-path".to_owned(), path("usr/lib/x86_64-linux-gnu"), program];
    all.extend_from_slice(arguments);
    Ok((root.join("usr/lib64/ld-linux-x86-64.so.2"), all))
}

/// Reads UCX's latency from a CSV table: `iterations,50.0_percentile_lat,...`, and a line of
/// numbers.
fn ucx_latency(text: &str) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("iterations,"));
    let column = lines.next()?.split(',').position(|name| name.ends_with("percentile_lat"))?;
    lines.next()?.split(',').nth(column)?.parse().ok()
}

/// Reads libfabric's latency from a table: `bytes #sent #ack total time MB/sec usec/xfer
/// Mxfers/sec`, and a line of numbers.
fn fabric_latency(text: &str) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("bytes"));
    let column = lines.next()?.split_whitespace().position(|name| name == "usec/xfer")?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

/// Returns a loopback port that is not in use now.
pub(crate) fn free_port() -> anyhow::Result<u16> {
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
    fn foreign_program_is_started_by_its_loader() {
        let (loader, arguments) = in_root(Path::new("/r"), &words("ucx_perftest -p 1")).unwrap();
        assert_eq!(loader, Path::new("/r/usr/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(arguments[2..], ["/r/usr/bin/ucx_perftest", "-p", "1"]);
        assert!(in_root(Path::new("/r"), &[]).is_err());
    }
}
