//! The event loop of the fabric process.
//!
//! Only the machines' messages, and signals, come from outside; between them the cards and the switch are looked at in
//! turn until none has anything to do. So a card waits for the switch, or the switch for room in a ring, but no bell of theirs
//! has to be heard: whoever waits is looked at again in the next round.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use event_manager::{EventManager, EventOps, EventSet, Events, MutEventSubscriber, SubscriberOps};
use hamlyn_fabric::{Geometry, HostId, Link};
use hamlyn_models::hamlyn::HamlynCard;
use hamlyn_switch::crossbar::Crossbar;
use serde_json::{Map, Value, json};

use super::args::FabricArgs;
use crate::card::{Station, Turn, Uplink, sooner, stop_on_signals};
use crate::commands::switch;
use crate::stat::StatServer;

/// The most cards. One thread serves them all.
const MOST_CARDS: usize = 64;
/// Rounds before the descriptors are looked at again.
const ROUNDS: usize = 16;
/// Packets that the switch moves in a round.
const BUDGET: usize = 256;

const STAT: u32 = 0;
const STOP: u32 = 1;
/// The first of the stations.
const STATION: u32 = 2;

/// Runs cards and switch until a signal ends them.
pub fn run(args: FabricArgs) -> anyhow::Result<()> {
    let process = FabricProcess::start(&args)?;
    tracing::info!("{} cards in one process, on {}", args.sockets.len(), process.names.join(", "));
    let mut manager = EventManager::new().context("cannot make an event manager")?;
    let id = manager.add_subscriber(process);
    loop {
        let process = manager.subscriber_mut(id).context("the fabric has left its event manager")?;
        if process.stopped {
            return Ok(());
        }
        let wait = process.work();
        manager.run_with_timeout(wait).context("cannot wait for events")?;
    }
}

struct FabricProcess {
    stations: Vec<Station>,
    /// What the stations are called.
    names: Vec<String>,
    crossbar: Crossbar,
    stat: StatServer,
    stop: UnixStream,
    stopped: bool,
    spin: Duration,
    /// When there was last something to do.
    busy: Instant,
}

impl FabricProcess {
    fn start(args: &FabricArgs) -> anyhow::Result<Self> {
        let count = args.sockets.len();
        ensure!(count <= MOST_CARDS, "{count} cards are too many for one process (limit {MOST_CARDS})");
        let geometry = Geometry::default();
        let mut crossbar = Crossbar::new(count as u16, geometry).with_paths(args.routing.paths, 0);
        let (mut stations, mut names) = (Vec::new(), Vec::new());
        for (host, socket) in args.sockets.iter().enumerate() {
            let (card, switch) = Link::pair(geometry).context("no memory for a link")?;
            let host = crossbar.attach(switch.sender, switch.receiver, Some(HostId(host as u16)))?;
            let largest = HamlynCard::largest_packet(args.options.packet_size);
            let uplink = Uplink::within(card, host, largest)?;
            let mut station = Station::start(&args.options, socket, uplink)?;
            station.link_changed();
            stations.push(station);
            names.push(socket.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
        let stop = stop_on_signals()?;
        let stat = StatServer::bind("fabric", "fabric")?;
        let (spin, busy) = (Duration::from_micros(args.spin), Instant::now());
        Ok(Self { stations, names, crossbar, stat, stop, stopped: false, spin, busy })
    }

    /// Works until there is nothing to do, or for a while. Says how long the loop may wait, in milliseconds.
    fn work(&mut self) -> i32 {
        self.stations.iter_mut().for_each(Station::tick);
        for _ in 0..ROUNDS {
            if !self.round() {
                let wait = if self.may_sleep() { -1 } else { 0 };
                return self.stations.iter().fold(wait, |wait, station| sooner(wait, station.alarm()));
            }
        }
        0
    }

    /// Everybody once. `false`: nobody had anything to do.
    fn round(&mut self) -> bool {
        let mut busy = false;
        for station in &mut self.stations {
            busy |= station.turn() != Turn::Idle;
        }
        for host in 0..self.stations.len() {
            // There may be room now where its ring was full.
            busy |= self.crossbar.wake(HostId(host as u16)) > 0;
        }
        if self.crossbar.poll() {
            busy |= self.crossbar.forward(BUDGET) > 0;
        }
        for (host, error) in self.crossbar.take_lost() {
            tracing::error!("port {host} is lost: {error}");
            if let Some(station) = self.stations.get_mut(host.index()) {
                station.unlink();
            }
        }
        if busy && !self.spin.is_zero() {
            self.busy = Instant::now();
        }
        busy
    }

    /// Tells the machines that nobody looks any more, and looks once more.
    fn may_sleep(&mut self) -> bool {
        if !self.spin.is_zero() && self.busy.elapsed() < self.spin {
            return false;
        }
        self.stations.iter_mut().all(Station::sleep)
    }

    fn counters(&self) -> Value {
        let cards: Map<String, Value> =
            self.names.iter().cloned().zip(self.stations.iter().map(Station::counters)).collect();
        json!({ "cards": cards, "switch": switch::counters(&self.crossbar.counters()) })
    }
}

impl MutEventSubscriber for FabricProcess {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        let stations =
            self.stations.iter().zip(STATION..).map(|(station, data)| (station.as_fd().as_raw_fd(), data));
        let all = [(self.stat.as_raw_fd(), STAT), (self.stop.as_raw_fd(), STOP)].into_iter().chain(stations);
        for (fd, data) in all {
            if let Err(error) = ops.add(Events::with_data_raw(fd, data, EventSet::IN)) {
                tracing::error!("cannot watch a descriptor: {error}");
                self.stopped = true;
            }
        }
    }

    fn process(&mut self, events: Events, _: &mut EventOps<'_>) {
        match events.data() {
            STAT => self.stat.answer(|| self.counters()),
            STOP => self.stopped = true,
            station => {
                let Some(station) = self.stations.get_mut((station - STATION) as usize) else { return };
                if let Err(error) = station.serve() {
                    tracing::error!("a vfio-user server: {error}");
                }
            }
        }
    }
}
