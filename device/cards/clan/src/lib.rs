//! The CLAN card (Riddoch and others, *Tripwire: a synchronisation primitive for virtual memory
//! mapped communication*, 2000), on the chassis of the family.
//!
//! | content | section | file |
//! |---|---|---|
//! | identity and verbs | | here |
//! | packets between two cards, cut and joined | 2.2 | `packet` |
//! | outgoing packets, in order for each host | 2.1, 2.2, 2.5 | `peers`, `peer` |
//! | pending refusals of writes | 2.2 | `refusals` |
//! | credits, and how losses are found | 2.2 | `credits` |
//! | loads and stores of windows | 2.1 | `stores`, `windows` |
//! | pending remote reads | 2.1 | `reads` |
//! | arriving packets | 2.1 to 2.3, 5.2 | `incoming` |
//! | apertures and their protection | 3.2 | `apertures` |
//! | words in order | 2.1 | `memory` |
//! | the DMA engine | 3.4 | `engine` |
//! | endpoints and their memory | 3.1 | `endpoints` |
//! | Tripwires, and which of them watch a place | 2.5, 3.3 | `tripwires`, `cam` |
//! | event queues | 3.5 | `events` |
//! | notifications | 3.3, 3.5 | `telling` |
//! | registers, and commands of the operating system | | `driver` |
//! | settings and construction | | `model` |

mod apertures;
mod cam;
mod credits;
mod driver;
mod endpoints;
mod engine;
mod events;
mod incoming;
mod memory;
mod model;
mod packet;
mod peer;
mod peers;
mod reads;
mod refusals;
mod stores;
mod telling;
mod tripwires;
mod windows;

use std::collections::VecDeque;
use std::time::Duration;

use hamlyn_abi::clan::aperture::CLAN_GROUP_HOST;
use hamlyn_abi::clan::dma::CLAN_DMA_TIMEOUT;
use hamlyn_abi::clan::endpoint::{CLAN_ENDPOINT_SIZE, CLAN_FAULT_LOST, CLAN_FAULT_TIMEOUT};
use hamlyn_abi::clan::identity::{CLAN_ABI_VERSION, CLAN_MODEL, CLAN_PCI_DEVICE};
use hamlyn_abi::clan::registers::{CLAN_JOIN_ARRIVING, CLAN_JOIN_LEAVING, CLAN_VECTOR_FIFO};
use hamlyn_abi::clan::statistics::{CLAN_STATISTICS, ClanStatistic};
use hamlyn_abi::family::identity::{HAMLYN_PCI_CLASS, HAMLYN_PCI_VENDOR, HAMLYN_REGISTERS_SIZE};
use hamlyn_card::card::{Bar, BarKind, Card, Identity, Place, Progress, Reading, Widths};
use hamlyn_card::chassis::counters::Counters;
use hamlyn_card::chassis::fifo::Fifo;
use hamlyn_card::chassis::table::Table;
use hamlyn_card::chassis::{Chassis, Plate};
use hamlyn_card::ports::{Link, Packet, Ports};

use self::apertures::Apertures;
use self::endpoints::{Endpoints, FaultReport};
use self::engine::Engine;
use self::events::Events;
use self::incoming::Burst;
pub use self::model::{MODEL, Options};
pub use self::packet::{OVERHEAD as PACKET_OVERHEAD, cut, join};
use self::packet::{READ, WRITE};
use self::peer::{By, GivenUp, Leaving, Left};
use self::peers::{ALL_CARDS_BIT, Peers};
use self::reads::Reads;
use self::tripwires::{Watched, Watches};
use self::windows::{Remote, Windows};

/// Protocol number of the card's packets on the fabric: the same as its model number.
const PROTOCOL: u8 = CLAN_MODEL as u8;
const REGISTERS: u8 = 0;
const PAGES: u8 = 2;
/// The most hosts on a switch that does not report its number of ports.
const MOST_PORTS: u16 = 1024;
/// Size of a page of host memory, in bytes.
const PAGE: u64 = 4096;

/// The CLAN card.
#[derive(Debug)]
pub struct ClanCard {
    chassis: Chassis,
    apertures: Apertures,
    windows: Windows,
    endpoints: Endpoints,
    events: Table<Events>,
    fifo: Fifo,
    watches: Watches,
    engine: Engine,
    peers: Peers,
    reads: Reads,
    /// Joined data that has arrived and is not yet written.
    burst: Option<Burst>,
    /// Loads that have got their values: number and value.
    loaded: VecDeque<(u64, u64)>,
    /// The switch sends this card the packets for all CLAN cards.
    is_listed: bool,
    here: Option<Place>,
    join: u32,
    read_timeout: Duration,
    options: Options,
    counters: Counters<{ CLAN_STATISTICS as usize }>,
}

impl ClanCard {
    /// Creates a card at power-on.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let plate = Plate {
            model: CLAN_MODEL,
            abi_version: CLAN_ABI_VERSION,
            vectors: CLAN_VECTOR_FIFO + 1,
            handshake_ms: options.handshake_ms,
        };
        Self {
            chassis: Chassis::new(plate),
            apertures: Apertures::new(options.apertures),
            windows: Windows::new(options.window_pages),
            endpoints: Endpoints::new(options.endpoints, options.tripwires),
            events: Table::new(options.event_queues),
            fifo: Fifo::default(),
            watches: Watches::default(),
            engine: Engine::default(),
            peers: Peers::new(options.credits, options.burst),
            reads: Reads::default(),
            burst: None,
            loaded: VecDeque::new(),
            is_listed: false,
            here: None,
            join: options.join,
            read_timeout: Duration::from_millis(options.read_timeout_ms.into()),
            options,
            counters: Counters::default(),
        }
    }

    fn count(&mut self, statistic: ClanStatistic) {
        self.counters.add(statistic, 1);
    }

    /// Returns whether there is a link on which such a host may exist.
    fn can_reach(&self, remote: Remote) -> bool {
        let ports = |place: Place| if place.ports == 0 { MOST_PORTS } else { place.ports };
        self.here.is_some_and(|place| remote.group().is_some() || remote.host < ports(place))
    }

    fn joins_leaving(&self) -> bool {
        self.join & CLAN_JOIN_LEAVING != 0
    }

    fn joins_arriving(&self) -> bool {
        self.join & CLAN_JOIN_ARRIVING != 0
    }

    /// Returns the size of the endpoints' pages, in bytes. The window pages begin behind them.
    fn endpoints_size(&self) -> u64 {
        u64::from(self.options.endpoints) * u64::from(CLAN_ENDPOINT_SIZE)
    }

    /// Handles a packet that has left, and continues the request that waits for that.
    fn left(&mut self, ports: &Ports<'_>, host: u16, packet: &Leaving) {
        let (length, tag) = (packet.data.len() as u64, packet.header.tag.get());
        if packet.header.kind != WRITE {
            return;
        }
        // The endpoint was closed, or another use of it began, while the packet waited.
        if self.endpoints.tagged(tag).is_none() {
            self.peers.forget_writer(tag);
        }
        self.counters.add(ClanStatistic::BytesSent, length);
        let (offset, named) = (packet.header.offset.get(), packet.header.aperture.get());
        let (host, aperture) =
            if packet.header.is_copy() { (CLAN_GROUP_HOST + named, 0) } else { (host.into(), named) };
        let watched = Watched::Remote { owner: packet.owner, host, aperture };
        self.accessed(ports, watched, offset..offset.saturating_add(length), true);
        if packet.by == By::Request {
            self.advance(ports, tag, length);
        }
    }

    /// Handles a packet that will not leave, and reports the reason.
    fn dropped(&mut self, ports: &Ports<'_>, host: u16, packet: &Leaving) {
        let tag = packet.header.tag.get();
        if packet.header.kind == READ {
            if let Some(read) = self.reads.refused(host, tag) {
                self.read_failed(ports, &read, CLAN_FAULT_TIMEOUT);
            }
        } else if packet.by == By::Request {
            self.engine_failed(ports, tag, CLAN_DMA_TIMEOUT);
        } else {
            let (aperture, offset) = (packet.header.aperture.get(), packet.header.offset.get());
            self.fault_of(ports, tag, FaultReport { reason: CLAN_FAULT_LOST, host, aperture, offset });
        }
    }

    /// Handles a host that was given up, and reports that to the endpoints concerned.
    fn given_up(&mut self, ports: &Ports<'_>, host: u16, (packets, endpoints): GivenUp) {
        for packet in packets {
            self.dropped(ports, host, &packet);
        }
        for tag in endpoints {
            let report = FaultReport { reason: CLAN_FAULT_TIMEOUT, host, aperture: 0, offset: 0 };
            self.fault_of(ports, tag, report);
        }
    }

    /// Drops the packets for hosts that do not respond, and ends reads that wait too long.
    fn give_up(&mut self, ports: &Ports<'_>, now: Duration) {
        for (host, gone) in self.peers.tick(now) {
            self.given_up(ports, host, gone);
        }
        for read in self.reads.give_up_overdue(now, self.read_timeout) {
            self.read_failed(ports, &read, CLAN_FAULT_TIMEOUT);
        }
    }

    /// Asks all cards for their groups, and announces those of this host.
    fn greet(&mut self) {
        if let Some(here) = self.here {
            self.peers.greet(here.host);
        }
    }
}

impl Card for ClanCard {
    fn identity(&self) -> Identity {
        let bar = |index, size, wide, widths| Bar { index, size, wide, kind: BarKind::Registers, widths };
        let pages = self.endpoints_size() + u64::from(self.options.window_pages) * PAGE;
        Identity {
            protocol: PROTOCOL,
            largest_packet: packet::OVERHEAD + self.options.burst as usize,
            // Reads and writes arrive in the order in which they were made (section 2.1).
            ordered: true,
            vendor: HAMLYN_PCI_VENDOR,
            device: CLAN_PCI_DEVICE,
            class: HAMLYN_PCI_CLASS,
            bars: vec![
                bar(REGISTERS, HAMLYN_REGISTERS_SIZE.into(), false, Widths::DWORD | Widths::QWORD),
                bar(PAGES, pages.next_power_of_two(), true, Widths::all()),
            ],
            vectors: CLAN_VECTOR_FIFO as u16 + 1,
            posted: Vec::new(),
            snooped: None,
        }
    }

    fn register_read(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8) -> Reading {
        self.settle(ports);
        let value = match bar {
            REGISTERS => self.read_register(offset as u32),
            PAGES if offset >= self.endpoints_size() => {
                return self.load(ports, offset - self.endpoints_size(), width);
            }
            _ => 0,
        };
        Reading::Now(value)
    }

    fn late_reading(&mut self) -> Option<(u64, u64)> {
        self.loaded.pop_front()
    }

    fn register_write(&mut self, ports: &Ports<'_>, bar: u8, offset: u64, width: u8, value: u64) {
        self.settle(ports);
        match bar {
            REGISTERS => self.write_register(ports, offset as u32, width, value),
            PAGES if offset < self.endpoints_size() => self.endpoint_page(ports, offset, width, value),
            PAGES => self.store(ports, offset - self.endpoints_size(), width, value),
            _ => {}
        }
    }

    fn transmit(&mut self, ports: &Ports<'_>, link: &mut dyn Link) -> Progress {
        self.settle(ports);
        let now = ports.clock.now();
        if !std::mem::replace(&mut self.is_listed, true) {
            link.set_groups(ALL_CARDS_BIT);
        }
        let ran = self.run_engine(ports);
        let mut starved = 0;
        let sent = self.peers.send_next(link, (now, self.read_timeout), &mut || starved += 1);
        self.counters.add(ClanStatistic::CreditWaits, starved);
        match sent {
            Ok((host, left)) => {
                self.engine.stir();
                self.count(ClanStatistic::PacketsSent);
                if let Left::Packet(packet) = left {
                    self.left(ports, host, &packet);
                }
                Progress::Worked
            }
            Err(Progress::Idle) if ran => Progress::Worked,
            Err(progress) => progress,
        }
    }

    fn packet_arrived(&mut self, ports: &Ports<'_>, packet: &Packet<'_>) {
        self.engine.stir();
        self.take(ports, packet);
    }

    fn sleep(&mut self, ports: &Ports<'_>) -> bool {
        // All work comes with a store or a packet.
        self.settle(ports);
        true
    }

    fn alarm(&self) -> Option<Duration> {
        let own = [self.chassis.deadline(), self.reads.deadline(), self.peers.deadline()];
        own.into_iter().flatten().min()
    }

    fn tick(&mut self, ports: &Ports<'_>) {
        self.settle(ports);
        let now = ports.clock.now();
        self.engine.stir();
        self.give_up(ports, now);
        if self.chassis.check_handshake(now) {
            self.count(ClanStatistic::HandshakeLapses);
        }
    }

    fn link_changed(&mut self, ports: &Ports<'_>, place: Option<Place>) {
        self.settle(ports);
        // Packets in flight on the earlier link are lost.
        for (host, gone) in self.peers.take_all() {
            self.given_up(ports, host, gone);
        }
        for read in self.reads.give_up(|_| true) {
            self.read_failed(ports, &read, CLAN_FAULT_TIMEOUT);
        }
        self.reads.clear();
        self.peers.begin_at(ports.clock.now());
        self.here = place;
        self.greet();
        self.chassis.link_changed(ports, place);
    }

    fn reset(&mut self, _: &Ports<'_>) {
        self.chassis.reset();
        self.burst = None;
        self.loaded.clear();
        self.apertures.clear();
        self.windows.clear();
        self.endpoints.clear();
        self.events.close_all();
        self.fifo.close();
        self.watches.clear();
        self.engine.clear();
        self.peers.clear();
        self.reads.clear();
        self.join = self.options.join;
        self.read_timeout = Duration::from_millis(self.options.read_timeout_ms.into());
        self.counters = Counters::default();
    }

    fn is_enabled(&self) -> bool {
        self.chassis.is_enabled()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.named(ClanStatistic::NAMES)
    }
}
