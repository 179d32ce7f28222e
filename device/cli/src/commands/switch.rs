//! `hamlyn switch`

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use hamlyn_switch::{Options, PortCounters, Switch, SwitchCounters};
use serde_json::{Map, Value, json};

use crate::rundir;
use crate::stat::StatServer;

/// Run a switch, which links cards
///
/// It forwards packets between cards by their host ids, which are the numbers of its ports, and drops none but those
/// for a port with no card.
#[derive(Debug, Args)]
pub(super) struct SwitchArgs {
    /// Where cards connect
    #[arg(long, value_name = "PATH", value_parser = rundir::socket_path)]
    socket: PathBuf,
    /// How many cards it can link
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    ports: u16,
    /// How long to look for packets before sleeping, in microseconds. More than 0 wants a core of its own
    #[arg(long, value_name = "US", default_value_t = 0)]
    spin: u64,
}

pub(super) fn run(args: SwitchArgs) -> anyhow::Result<()> {
    let options = Options { ports: args.ports, spin: Duration::from_micros(args.spin), ..Options::default() };
    let mut switch = Switch::bind(&args.socket, options)?;
    let (stop, ring) = UnixStream::pair().context("cannot make a socket pair")?;
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::low_level::pipe::register(*signal, ring.try_clone()?).context("cannot catch signals")?;
    }
    let name = args.socket.file_stem().unwrap_or_default().to_string_lossy();
    let stat = StatServer::bind("switch", &name)?;
    tracing::info!("switch with {} ports on {}", args.ports, args.socket.display());
    switch.run_with(stop.as_fd(), stat.as_fd(), |switch| stat.answer(|| counters(&switch.counters())))?;
    Ok(())
}

/// The ports that have ever been of use.
fn counters(counters: &SwitchCounters) -> Value {
    let used = counters.ports.iter().enumerate().filter(|(_, port)| **port != PortCounters::default());
    let ports: Map<String, Value> = used.map(|(number, port)| (number.to_string(), of_port(port))).collect();
    json!({ "ports": ports })
}

fn of_port(port: &PortCounters) -> Value {
    json!({
        "attached": port.attached,
        "packets_in": port.packets_in,
        "bytes_in": port.bytes_in,
        "packets_out": port.packets_out,
        "bytes_out": port.bytes_out,
        "stalls": port.stalls,
        "dropped_absent": port.dropped_absent,
        "dropped_malformed": port.dropped_malformed,
        "orphaned": port.orphaned,
        "undelivered": port.undelivered,
    })
}
