//! The switch in its own process.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use event_manager::{EventManager, EventOps, EventSet, Events, MutEventSubscriber, SubscriberOps};
use hamlyn_switch::mesh::{LinkCounters, Place};
use hamlyn_switch::{Options, PortCounters, Switch, SwitchCounters};
use serde_json::{Map, Value, json};

use crate::catalogue;
use crate::limits;
use crate::signals::stop_on_signals;
use crate::stat::StatServer;
use crate::wait::sooner;

const SWITCH: u32 = 0;
const STAT: u32 = 1;
const STOP: u32 = 2;

/// Runs a switch until a signal ends it. The models define how packets are split and joined.
pub fn run(socket: &Path, options: Options) -> anyhow::Result<()> {
    limits::keep_guests_out_of_core_dumps();
    limits::allow_many_descriptors();
    let ports = options.ports;
    let switch = Switch::bind(socket, Options { bursts: catalogue::bursts(), ..options })?;
    hamlyn_door::warn_of_unused_sockets();
    let stop = stop_on_signals()?;
    let name = socket.file_stem().unwrap_or_default().to_string_lossy();
    let stat = StatServer::bind("switch", &name)?;
    tracing::info!("switch with {ports} ports on {}", socket.display());
    let mut manager = EventManager::new().context("cannot make an event manager")?;
    let id = manager.add_subscriber(SwitchProcess { switch, stat, stop, stopped: false });
    loop {
        let process = manager.subscriber_mut(id).context("the switch has left its event manager")?;
        if process.stopped {
            return Ok(());
        }
        // Until there is work, or a packet has waited for too long.
        let wait = match process.switch.work()? {
            Some(Duration::ZERO) => 0,
            limit => sooner(-1, limit),
        };
        manager.run_with_timeout(wait).context("cannot wait for events")?;
    }
}

struct SwitchProcess {
    switch: Switch,
    stat: StatServer,
    stop: UnixStream,
    stopped: bool,
}

impl MutEventSubscriber for SwitchProcess {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        let switch = self.switch.as_fd().as_raw_fd();
        let fixed = [(switch, SWITCH), (self.stat.as_raw_fd(), STAT), (self.stop.as_raw_fd(), STOP)];
        for (fd, data) in fixed {
            if let Err(error) = ops.add(Events::with_data_raw(fd, data, EventSet::IN)) {
                tracing::error!("cannot watch a descriptor: {error}");
                self.stopped = true;
            }
        }
    }

    fn process(&mut self, events: Events, _: &mut EventOps<'_>) {
        match events.data() {
            // The loop does the switch's work.
            SWITCH => {}
            STAT => self.stat.answer(|| counters(&self.switch.counters())),
            STOP => self.stopped = true,
            other => tracing::error!("an event with an unknown number: {other}"),
        }
    }
}

/// Returns the counters, for those ports that have ever been used.
pub(crate) fn counters(counters: &SwitchCounters) -> Value {
    let used = counters.ports.iter().enumerate().filter(|(_, port)| **port != PortCounters::default());
    let ports: Map<String, Value> = used.map(|(number, port)| (number.to_string(), of_port(port))).collect();
    if counters.links.is_empty() {
        return json!({ "ports": ports });
    }
    let links: Map<String, Value> = counters.links.iter().map(of_link).collect();
    json!({ "ports": ports, "links": links })
}

/// Names a link of the mesh by its source node and its direction: `5.east`.
fn of_link((place, link): &(Place, LinkCounters)) -> (String, Value) {
    let name = format!("{}.{}", place.node, place.port);
    (name, json!({ "packets": link.packets, "flits": link.flits, "waits": link.waits }))
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
        "copied": port.copied,
        "copies_lost": port.copies_lost,
        "cut": port.cut,
        "joined": port.joined,
        "stalled_out": port.stalled_out,
        "dropped_absent": port.dropped_absent,
        "dropped_malformed": port.dropped_malformed,
        "orphaned": port.orphaned,
        "undelivered": port.undelivered,
    })
}
