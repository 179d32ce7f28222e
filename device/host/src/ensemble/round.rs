//! The cards and the switch between them, and the work of a round.
//!
//! Cards and switch are polled in turn until none of them has work. A card may wait for the switch,
//! or the switch for space in a ring, but they need no bells: a component that waits is polled
//! again in the next round. A card that sleeps is not polled, nor are its ring and its clock.
//!
//! A card with a full link also sleeps when no packet moves: only the switch makes space. After the
//! switch has moved a packet, all cards are polled again.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hamlyn_bus::GuestMemory;
use hamlyn_card::card::Place;
use hamlyn_card::ports::{Clock, Packet, Pieces, VolatileSlice};
use hamlyn_fabric::express::{Memory, Shape};
use hamlyn_fabric::{Geometry, HostId, Link};
use hamlyn_switch::crossbar::Crossbar;
use hamlyn_switch::traffic::Protocols;
use rustix::thread::sched_yield;
use serde_json::{Map, Value, json};

use super::Options;
use super::roster::{self, Set, Ticks};
use crate::catalogue;
use crate::clock::SystemClock;
use crate::station::{Carried, Socket, Station};
use crate::switch;
use crate::uplink::{Neighbours, Packets, Uplink};
use crate::wait::sooner;

/// Maximum number of cards. One thread at a time serves them all.
const MOST_CARDS: usize = roster::MOST;
/// Maximum number of rounds before the descriptors are checked again.
const ROUNDS: usize = 16;
/// Time limit for the same: no round begins later.
const WORK: Duration = Duration::from_micros(500);
/// Maximum number of packets that the switch moves in a round.
const BUDGET: usize = 256;

/// Cards and switch.
pub(super) struct Ensemble {
    pub(super) stations: Vec<Station>,
    /// Names of the stations.
    pub(super) names: Vec<String>,
    crossbar: Crossbar,
    spin: Duration,
    /// When there was work last.
    busy: Instant,
    /// Stations whose turn may find work. The others sleep, and neither a message of their machine,
    /// a packet of a neighbour nor a due tick has come since.
    awake: Set,
    /// Stations that had something to send and a full link in their last turn.
    full: Set,
    /// Stations whose next tick may differ from the recorded one.
    moved: Set,
    ticks: Ticks,
    /// Number of times that a station was polled.
    looks: u64,
}

impl Ensemble {
    pub(super) fn start(options: &Options) -> anyhow::Result<Self> {
        let count = options.cards.len();
        ensure!(count <= MOST_CARDS, "{count} cards are too many for one process (limit {MOST_CARDS})");
        let geometry = Geometry::default();
        if let Some(shape) = options.mesh {
            let nodes = shape.nodes();
            ensure!(
                count <= nodes as usize,
                "{count} cards are too many for a mesh of {shape} (limit {nodes})"
            );
        }
        let bursts = catalogue::bursts();
        let mut crossbar = Crossbar::new(count as u16, geometry)
            .with_paths(options.paths, 0)
            .with_mesh(options.mesh)
            .with_bursts(&bursts, options.cutting);
        let mut protocols = Protocols::new(count as u16, options.paths, &bursts);
        let express = options.express.map(|(form, part)| Shape::new(form, count as u16, part)).transpose()?;
        let mut express = express.map(Memory::new).transpose().context("no express memory")?;
        let (mut stations, mut names) = (Vec::new(), Vec::new());
        for (host, (card_options, socket)) in options.cards.iter().enumerate() {
            let card = card_options.make()?;
            let packets = Packets::of(&card.identity())?;
            let (link, switch) = Link::quiet_pair(geometry).context("no memory for a link")?;
            let host = crossbar.attach(switch.sender, switch.receiver, Some(HostId(host as u16)))?;
            protocols.check(packets.traffic).with_context(|| format!("card {host} does not fit"))?;
            protocols.attached(host, packets.traffic);
            let place = Place { host: host.0, ports: count as u16 };
            let holding = express.as_mut().map(|memory| memory.holding(host)).transpose();
            let uplink = Uplink::within(link, place, packets, holding.context("no express memory")?)?;
            let limit = card_options.guest_memory;
            let memory = if options.trust_memory {
                GuestMemory::Trusted { limit }
            } else {
                // A machine that takes away memory it has lent would end the process, and with it
                // the cards of others.
                GuestMemory::Sealed { limit }
            };
            let mut station = Station::start(card, socket, memory, uplink)?;
            station.set_options(card_options)?;
            station.link_changed();
            stations.push(station);
            names.push(socket.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
        let (spin, busy, all) = (options.spin, Instant::now(), Set::first(stations.len()));
        let (full, ticks) = (Set::default(), Ticks::default());
        Ok(Self { stations, names, crossbar, spin, busy, awake: all, full, moved: all, ticks, looks: 0 })
    }

    /// Marks a station as having work.
    fn rouse(&mut self, station: usize) {
        self.awake.add(station);
        self.moved.add(station);
    }

    pub(super) fn rouse_all(&mut self) {
        let all = Set::first(self.stations.len());
        (self.awake, self.moved) = (all, all);
    }

    /// Handles a machine's messages. Returns `false` if there is no such machine.
    pub(super) fn serve(&mut self, station: usize, socket: Socket) -> bool {
        self.rouse(station);
        let Some(station) = self.stations.get_mut(station) else { return false };
        if let Err(error) = station.serve(socket) {
            tracing::error!("a vfio-user server: {error}");
        }
        true
    }

    /// Runs the ticks that are due, after the machine's messages, because one of them may be what
    /// the card would otherwise time out on.
    pub(super) fn tick(&mut self) {
        self.settle();
        for station in self.ticks.due(SystemClock.now()) {
            if self.serve(station, Socket::Card) {
                self.stations[station].tick();
            }
        }
    }

    /// Works until there is no more work, or for a limited time. Returns `false` if there is more
    /// work.
    pub(super) fn work(&mut self) -> bool {
        let begun = Instant::now();
        for round in 0..ROUNDS {
            if round > 0 && begun.elapsed() >= WORK {
                break;
            }
            if self.round() {
                continue;
            }
            if self.may_sleep() {
                return true;
            }
            if !self.spin.is_zero() {
                // The peer may need this core.
                sched_yield();
            }
        }
        false
    }

    /// Returns the time left until the next tick, in milliseconds, or -1 if there is none.
    pub(super) fn wait(&mut self) -> i32 {
        sooner(-1, self.next_tick().map(|next| next.saturating_sub(SystemClock.now())))
    }

    /// Returns the time of the next tick, in the host's time.
    pub(super) fn next_tick(&mut self) -> Option<Duration> {
        self.settle();
        self.ticks.next()
    }

    /// Updates the next ticks of those stations whose tick may have changed.
    fn settle(&mut self) {
        for station in self.moved.iter() {
            self.looks += 1;
            self.ticks.note(station, self.stations.get(station).and_then(Station::next_tick));
        }
        self.moved = self.awake;
    }

    /// Polls once everything that may have work. Returns `false` if there was none.
    fn round(&mut self) -> bool {
        let (mut busy, mut next) = (false, 0);
        while let Some(host) = self.awake.from(next) {
            (next, self.looks) = (host + 1, self.looks + 1);
            let (before, behind) = self.stations.split_at_mut(host);
            let Some((station, after)) = behind.split_first_mut() else { break };
            let roused = [&mut self.awake, &mut self.moved];
            let mut others =
                Others { host: host as u16, before, after, crossbar: &mut self.crossbar, roused };
            let carried = station.turn(&mut others);
            busy |= carried == Carried::Worked;
            self.full.set(host, carried == Carried::Full);
            // There may be packets in its ring now, and space in the other one if it was full.
            self.crossbar.wake(HostId(host as u16));
        }
        if self.crossbar.forward(BUDGET) > 0 {
            self.rouse_all();
            busy = true;
        }
        self.crossbar.leave();
        for (host, reason) in self.crossbar.take_lost() {
            tracing::error!("port {host} is lost: {reason}");
            if let Some(station) = self.stations.get_mut(host.index()) {
                station.unlink();
            }
            // Senders that were stopped because of this host resume.
            self.rouse_all();
        }
        if busy && !self.spin.is_zero() {
            self.busy = Instant::now();
        }
        busy
    }

    /// Announces to the machines that their cards sleep, then checks once more.
    fn may_sleep(&mut self) -> bool {
        if !self.spin.is_zero() && self.busy.elapsed() < self.spin {
            return false;
        }
        for host in self.awake.iter() {
            self.looks += 1;
            let full = self.full.has(host);
            if self.stations.get_mut(host).is_some_and(|station| !station.sleep(full)) {
                return false;
            }
            self.awake.remove(host);
        }
        true
    }

    /// Returns how often a station or its ring was polled.
    #[cfg(test)]
    pub(super) fn looks(&self) -> u64 {
        self.looks + self.crossbar.looks()
    }

    /// Returns the stations with their names.
    pub(super) fn named(&mut self) -> Vec<(&str, &mut Station)> {
        self.names.iter().map(String::as_str).zip(&mut self.stations).collect()
    }

    pub(super) fn counters(&self) -> Value {
        let cards: Map<String, Value> =
            self.names.iter().cloned().zip(self.stations.iter().map(Station::counters)).collect();
        json!({ "cards": cards, "switch": switch::counters(&self.crossbar.counters()) })
    }
}

/// All cards but the one whose turn it is to send.
struct Others<'a> {
    host: u16,
    before: &'a mut [Station],
    after: &'a mut [Station],
    crossbar: &'a mut Crossbar,
    /// A station that gets a packet is added to these sets.
    roused: [&'a mut Set; 2],
}

impl Neighbours for Others<'_> {
    /// The packet is passed without a copy in between: the receiving card deposits it directly from
    /// the sender's data.
    fn hand_over(&mut self, destination: u16, packet: &[VolatileSlice<'_>]) -> bool {
        let station = match destination.checked_sub(self.host) {
            None => self.before.get_mut(usize::from(destination)),
            // A card sends to itself over the ring, because it is in the middle of a call. A packet
            // to a group takes the ring too: its destination is not a station's number.
            Some(0) => None,
            Some(behind) => self.after.get_mut(usize::from(behind) - 1),
        };
        // If the card does not accept packets, it finds them in its ring later.
        let Some(station) = station.filter(|station| station.takes_packets()) else { return false };
        let bytes = Pieces::new(packet);
        let passes = self.crossbar.pass(HostId(self.host), HostId(destination), bytes.len());
        if passes {
            station.packet_arrived(&Packet { source: self.host, bytes });
            self.roused.iter_mut().for_each(|set| set.add(destination.into()));
        }
        passes
    }
}
