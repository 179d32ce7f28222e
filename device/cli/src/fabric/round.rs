//! The cards and the switch between them, and what is done in a round.
//!
//! They are looked at in turn until none has anything to do. So a card waits for the switch, or the switch for room in a
//! ring, but no bell of theirs has to be heard: whoever waits is looked at again in the next round.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hamlyn_bus::GuestMemory;
use hamlyn_fabric::{Geometry, HostId, Link};
use hamlyn_models::hamlyn::HamlynCard;
use hamlyn_models::ports::{Packet, Pieces, VolatileSlice};
use hamlyn_switch::crossbar::Crossbar;
use rustix::thread::sched_yield;
use serde_json::{Map, Value, json};

use super::args::FabricArgs;
use crate::card::{Neighbours, Socket, Station, Turn, Uplink, sooner};
use crate::commands::switch;

/// The most cards. One thread at a time serves them all.
const MOST_CARDS: usize = 64;
/// Rounds before the descriptors are looked at again.
const ROUNDS: usize = 16;
/// Packets that the switch moves in a round.
const BUDGET: usize = 256;

/// Cards and switch.
pub(super) struct Fabric {
    pub(super) stations: Vec<Station>,
    /// What the stations are called.
    pub(super) names: Vec<String>,
    crossbar: Crossbar,
    spin: Duration,
    /// When there was last something to do.
    busy: Instant,
}

impl Fabric {
    pub(super) fn start(args: &FabricArgs) -> anyhow::Result<Self> {
        let count = args.sockets.len();
        ensure!(count <= MOST_CARDS, "{count} cards are too many for one process (limit {MOST_CARDS})");
        let geometry = Geometry::default();
        let mut crossbar = Crossbar::new(count as u16, geometry).with_paths(args.routing.paths, 0);
        let (mut stations, mut names) = (Vec::new(), Vec::new());
        for (host, socket) in args.sockets.iter().enumerate() {
            let (card, switch) = Link::quiet_pair(geometry).context("no memory for a link")?;
            let host = crossbar.attach(switch.sender, switch.receiver, Some(HostId(host as u16)))?;
            let largest = HamlynCard::largest_packet(args.options.packet_size);
            let uplink = Uplink::within(card, host, largest)?;
            // Who takes away what it lent ends the process, and with it the cards of others.
            let memory = GuestMemory::Sealed { limit: args.options.guest_memory };
            let mut station = Station::start(&args.options, socket, memory, uplink)?;
            station.link_changed();
            stations.push(station);
            names.push(socket.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
        let (spin, busy) = (Duration::from_micros(args.spin), Instant::now());
        Ok(Self { stations, names, crossbar, spin, busy })
    }

    /// Handles the messages of a machine. `false`: there is no such machine.
    pub(super) fn serve(&mut self, station: usize, socket: Socket) -> bool {
        let Some(station) = self.stations.get_mut(station) else { return false };
        if let Err(error) = station.serve(socket) {
            tracing::error!("a vfio-user server: {error}");
        }
        true
    }

    /// Ticks where it is time, after the machine's messages, among which may be the one that the card would miss.
    pub(super) fn tick(&mut self) {
        for station in 0..self.stations.len() {
            if self.stations[station].alarm() == Some(Duration::ZERO) {
                self.serve(station, Socket::Card);
                self.stations[station].tick();
            }
        }
    }

    /// Works until there is nothing to do, or for a while. `false`: there is more to do.
    pub(super) fn work(&mut self) -> bool {
        for _ in 0..ROUNDS {
            if self.round() {
                continue;
            }
            if self.may_sleep() {
                return true;
            }
            if !self.spin.is_zero() {
                // Who is looked for may wait for this core.
                sched_yield();
            }
        }
        false
    }

    /// How long it is until the next tick, in milliseconds; -1: there will be none.
    pub(super) fn wait(&self) -> i32 {
        self.stations.iter().fold(-1, |wait, station| sooner(wait, station.alarm()))
    }

    /// When the next tick is, by the cards' clock.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        self.stations.iter().filter_map(Station::next_tick).min()
    }

    /// Everybody who may have something to do, once. `false`: nobody had.
    fn round(&mut self) -> bool {
        let mut busy = false;
        for host in 0..self.stations.len() {
            let (before, behind) = self.stations.split_at_mut(host);
            let Some((station, after)) = behind.split_first_mut() else { break };
            // What nobody uses costs nobody anything.
            if station.is_quiet() {
                continue;
            }
            let mut others = Others { host: host as u16, before, after, crossbar: &mut self.crossbar };
            busy |= station.turn(&mut others) != Turn::Idle;
        }
        for host in 0..self.stations.len() {
            // There may be room now where its ring was full.
            self.crossbar.wake(HostId(host as u16));
        }
        if self.crossbar.poll() && self.crossbar.forward(BUDGET) > 0 {
            self.stations.iter_mut().for_each(Station::rouse);
            busy = true;
        }
        for (host, reason) in self.crossbar.take_lost() {
            tracing::error!("port {host} is lost: {reason}");
            if let Some(station) = self.stations.get_mut(host.index()) {
                station.unlink();
            }
            // Who was stopped for it goes on.
            self.stations.iter_mut().for_each(Station::rouse);
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
        self.stations.iter_mut().filter(|station| !station.is_quiet()).all(Station::sleep)
    }

    pub(super) fn counters(&self) -> Value {
        let cards: Map<String, Value> =
            self.names.iter().cloned().zip(self.stations.iter().map(Station::counters)).collect();
        json!({ "cards": cards, "switch": switch::counters(&self.crossbar.counters()) })
    }
}

/// The cards but one, whose turn it is to send.
struct Others<'a> {
    host: u16,
    before: &'a mut [Station],
    after: &'a mut [Station],
    crossbar: &'a mut Crossbar,
}

impl Neighbours for Others<'_> {
    /// Nothing lies between the memory of the one machine and that of the other: the receiving card deposits from where
    /// the sender's data is.
    fn hand_over(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        let station = match destination.checked_sub(self.host) {
            None => self.before.get_mut(usize::from(destination)),
            // To itself a card sends by the ring: it is in the middle of a call.
            Some(0) => None,
            Some(behind) => self.after.get_mut(usize::from(behind) - 1),
        };
        let Some(station) = station else { return false };
        let bytes = Pieces::new(packet);
        let passes = self.crossbar.pass(HostId(self.host), HostId(destination), bytes.len());
        if passes {
            station.packet_arrived(&Packet { source: self.host, bytes });
        }
        passes
    }
}
