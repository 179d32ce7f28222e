//! The switch in a process of its own.

use std::os::fd::AsFd;
use std::path::Path;

use hamlyn_switch::{Options, PortCounters, Switch, SwitchCounters};
use serde_json::{Map, Value, json};

use crate::limits;
use crate::signals::stop_on_signals;
use crate::stat::StatServer;

/// Runs a switch until a signal ends it.
pub fn run(socket: &Path, options: Options) -> anyhow::Result<()> {
    limits::keep_guests_out_of_core_dumps();
    limits::allow_many_descriptors();
    let ports = options.ports;
    let mut switch = Switch::bind(socket, options)?;
    let stop = stop_on_signals()?;
    let name = socket.file_stem().unwrap_or_default().to_string_lossy();
    let stat = StatServer::bind("switch", &name)?;
    tracing::info!("switch with {ports} ports on {}", socket.display());
    switch.run_with(stop.as_fd(), stat.as_fd(), |switch| stat.answer(|| counters(&switch.counters())))?;
    Ok(())
}

/// The ports that have ever been of use.
pub(crate) fn counters(counters: &SwitchCounters) -> Value {
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
        "overtaken": port.overtaken,
        "waiting": port.waiting,
        "stalls": port.stalls,
        "stops": port.stops,
        "blocked": port.blocked,
        "stalled_out": port.stalled_out,
        "dropped_absent": port.dropped_absent,
        "dropped_malformed": port.dropped_malformed,
        "orphaned": port.orphaned,
        "undelivered": port.undelivered,
    })
}
