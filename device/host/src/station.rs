//! A card with its machine's server. A process has one of these per card.
//!
//! **Ordering.** The card gets all snooped stores before any access that the machine made after
//! them. When the card is asked whether it accepts an access, that access has arrived. All stores
//! made before it are in their ring by then.
//!
//! **Backpressure.** While the card does not accept stores, stores stay in their ring and accesses
//! in their sockets. Each of them could overflow a FIFO. While the card does not accept packets,
//! packets stay in the link's ring.
//!
//! Sources that are not polled do not wake the process either. While a client's access waits, its
//! server watches the client only for a disconnect. Before it sleeps, the card asks the other ends
//! of the rings to signal only what it accepts.
//!
//! Only a method of the card makes room, and each such call is followed by a turn: after a send,
//! after time has passed, or after a reset by the machine. The link's bell, or a neighbour, signals
//! when there is space for a send. A turn resumes waiting accesses, takes packets, takes stores,
//! sends, and repeats. An access waits for the stores before it but not for those after it. So a
//! processor that stores endlessly does not starve others of register accesses.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use hamlyn_bus::{GuestMemory, Server, ServerError, Waiter};
use hamlyn_card::card::{Card, Progress};
use hamlyn_card::model::Choice;
use hamlyn_card::ports::Packet;
use hamlyn_fabric::express::MOST_HOSTS;
use hamlyn_fabric::one_way::Writer;
use hamlyn_faults::talk::CardFaults;
use hamlyn_faults::{RuleError, Rules};
use hamlyn_trace::contract::Contract;
use hamlyn_trace::hello::{CardName, RegionName};
use serde_json::{Map, Value, json};

use super::express::{self, ExpressServers};
use super::function::{CardFunction, DoorbellFunction, description, doorbell_description};
use super::snooping::Snooping;
use super::uplink::{Neighbours, Uplink};
use crate::rundir::{doorbell_path, snoop_path};

/// Number of packets taken, packets sent and stores taken before the descriptors are checked again.
const BATCH: usize = 32;
/// Duration of a turn. The turn of another station begins when this time is over and the current
/// method call has returned. The card bounds the time of a call.
const SLICE: Duration = Duration::from_micros(200);

/// A card's options, which do not depend on where it runs.
#[derive(Debug, Clone)]
pub struct CardOptions {
    /// The model and its settings.
    pub choice: Choice,
    /// Maximum guest memory that the card maps, in bytes.
    pub guest_memory: u64,
    /// Rules for faults from the start, if any, and their seed.
    pub faults: Option<(String, u64)>,
}

impl CardOptions {
    /// Default for the maximum guest memory.
    pub const GUEST_MEMORY: u64 = GuestMemory::DEFAULT_LIMIT;

    pub(crate) fn make(&self) -> anyhow::Result<Box<dyn Card + Send>> {
        self.choice.make().map_err(anyhow::Error::from_boxed)
    }
}

/// A card between its machine and its link.
pub(crate) struct Station {
    server: Server,
    doorbells: Option<DoorbellServer>,
    express: Option<ExpressServers>,
    pub(super) function: CardFunction,
    /// The card's settings, for those that read traces and recordings.
    settings: BTreeMap<String, u32>,
}

/// The server of the card's second function.
struct DoorbellServer {
    server: Server,
    /// The first function's BAR that this one exposes.
    bar: usize,
}

/// The card's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    /// The card's own socket.
    Card,
    /// The socket of its second function.
    Doorbells,
    /// The socket where the machine's stores are reported.
    Stores,
    /// The socket of a function with express memory, by number.
    Express(u8),
}

impl Socket {
    /// Upper limit for the number of a card's sockets.
    pub(crate) const MOST: u32 = 3 + MOST_HOSTS as u32;

    /// Returns the number of a socket.
    pub(crate) fn number(self) -> u32 {
        match self {
            Socket::Card => 0,
            Socket::Doorbells => 1,
            Socket::Stores => 2,
            Socket::Express(number) => 3 + u32::from(number),
        }
    }

    /// Returns the socket with this number.
    pub(crate) fn of(number: u32) -> Socket {
        match number {
            0 => Socket::Card,
            1 => Socket::Doorbells,
            2 => Socket::Stores,
            number => Socket::Express((number - 3) as u8),
        }
    }

    /// Whether a machine uses the socket when it enumerates devices, and hardly afterwards.
    pub(crate) fn is_quiet(self) -> bool {
        matches!(self, Socket::Express(_))
    }
}

/// Result of a station's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Packets were taken or sent.
    Worked,
    /// There is nothing to do.
    Idle,
    /// There is something to send, but the link is full.
    Full,
}

impl Station {
    /// Starts a card whose machine connects at `socket`. It also listens beside it for doorbells,
    /// and for accesses to the express memory that the uplink has.
    pub(crate) fn start(
        card: Box<dyn Card + Send>,
        socket: &Path,
        memory: GuestMemory,
        uplink: Uplink,
    ) -> anyhow::Result<Self> {
        let identity = card.identity();
        // This is done before the card's own socket exists: a process that finds that socket may
        // check for these.
        express::clear(socket)?;
        let express = uplink
            .express()
            .map(|holding| ExpressServers::start(socket, holding, &description(card.as_ref())))
            .transpose()?;
        let mut server = Server::bind(socket, description(card.as_ref()))?;
        server.set_guest_memory(memory);
        let doorbells = match identity.posted[..] {
            [] => None,
            [doorbells] => {
                let description = doorbell_description(card.as_ref(), doorbells);
                let mut server = Server::bind(&doorbell_path(socket), description)?;
                server.set_guest_memory(GuestMemory::Unused);
                Some(DoorbellServer { server, bar: doorbells.bar.into() })
            }
            _ => bail!("{} posted functions are too many (limit 1)", identity.posted.len()),
        };
        let snooping =
            identity.snooped.map(|pages| Snooping::start(&snoop_path(socket), pages)).transpose()?;
        let mut function = CardFunction::new(card, uplink, snooping);
        for bar in identity.bars {
            if let Some(pages) = server.bus().pages(bar.index.into()) {
                function.set_window(bar.index, pages.clone());
            }
        }
        Ok(Self { server, doorbells, express, function, settings: BTreeMap::new() })
    }

    /// Gives the card what its options say beside the model: rules for faults.
    pub(crate) fn set_options(&mut self, options: &CardOptions) -> Result<(), RuleError> {
        self.settings =
            options.choice.chosen().iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self.function.set_choice(&options.choice);
        if let Some((rules, seed)) = &options.faults {
            self.start_faults(self.rules(rules)?, *seed);
        }
        Ok(())
    }

    /// Returns the descriptors to wait for. A socket's descriptor is readable when
    /// [`Station::serve`] has work for it.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (Socket, RawFd)> + '_ {
        let doorbells =
            self.doorbells.as_ref().map(|doorbells| (Socket::Doorbells, doorbells.server.as_raw_fd()));
        let stores = self.function.snooping().map(|snooping| (Socket::Stores, snooping.as_raw_fd()));
        let express = self.express.iter().flat_map(ExpressServers::sockets);
        let express = express.map(|(number, fd)| (Socket::Express(number), fd));
        [(Socket::Card, self.server.as_raw_fd())].into_iter().chain(doorbells).chain(stores).chain(express)
    }

    /// Like [`Station::sockets`], for threads without access to the station and without the quiet
    /// sockets.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (Socket, io::Result<Waiter>)> + '_ {
        let doorbells = self.doorbells.as_ref().map(|doorbells| (Socket::Doorbells, &doorbells.server));
        let servers = [(Socket::Card, &self.server)].into_iter().chain(doorbells);
        let stores = self.function.snooping().map(|snooping| (Socket::Stores, snooping.waiter()));
        servers.map(|(socket, server)| (socket, server.waiter())).chain(stores)
    }

    /// Handles the machine's messages on a socket.
    pub(crate) fn serve(&mut self, socket: Socket) -> Result<(), ServerError> {
        match socket {
            Socket::Card => _ = self.server.process(&mut self.function)?,
            Socket::Doorbells => {
                if let Some(DoorbellServer { server, bar }) = &mut self.doorbells {
                    let (card, bus) = (&mut self.function, self.server.bus());
                    server.process(&mut DoorbellFunction { card, bus, bar: *bar })?;
                }
            }
            Socket::Stores => self.function.hear_plugin(self.server.bus()),
            Socket::Express(number) => {
                if let Some(express) = &mut self.express {
                    express.serve(number, &mut self.function, self.server.bus())?;
                }
            }
        }
        self.answer_late_reads();
        Ok(())
    }

    /// Takes received packets before each packet that it sends (section 2.8). The turn is bounded
    /// in time and in the number of packets each way.
    pub(crate) fn turn(&mut self, neighbours: &mut dyn Neighbours) -> Carried {
        let mut carried = Carried::Idle;
        let begun = Instant::now();
        let is_over = || begun.elapsed() >= SLICE;
        for _ in 0..BATCH {
            let went_on = self.go_on();
            let bus = self.server.bus();
            let mut received = 0;
            while received < BATCH && (received == 0 || !is_over()) && self.function.receive(bus) {
                received += 1;
            }
            let stores = self.function.take_stores(bus, BATCH);
            let progress = self.function.transmit(bus, neighbours);
            if went_on || received > 0 || stores > 0 || progress.has_worked() {
                carried = Carried::Worked;
            } else if carried == Carried::Idle && progress == Progress::LinkFull {
                carried = Carried::Full;
            }
            if received == BATCH || progress != Progress::Worked || is_over() {
                break;
            }
        }
        self.answer_late_reads();
        carried
    }

    /// Resumes the machine's waiting accesses if the card accepts them now.
    fn go_on(&mut self) -> bool {
        let mut went_on = false;
        for socket in [Socket::Card, Socket::Doorbells] {
            if self.is_held(socket) && self.function.takes_stores() {
                if let Err(error) = self.serve(socket) {
                    tracing::error!("a vfio-user server: {error}");
                }
                // If the access is still held, the card is full again, or the machine does not read
                // its answers. This must not become a busy loop.
                went_on |= !self.is_held(socket);
            }
        }
        went_on
    }

    /// Starts a card of the first model, for tests without a machine. Its driver has not enabled
    /// it, so it discards what arrives.
    #[cfg(test)]
    pub(crate) fn without_machine(folder: &Path) -> Self {
        let card = Choice::of(crate::catalogue::default()).make().unwrap();
        let packets = crate::uplink::Packets::of(&card.identity()).unwrap();
        let (link, _) = hamlyn_fabric::Link::quiet_pair(hamlyn_fabric::Geometry::default()).unwrap();
        let uplink =
            Uplink::within(link, hamlyn_card::card::Place { host: 1, ports: 4 }, packets, None).unwrap();
        Self::start(card, &folder.join("card0"), GuestMemory::Unused, uplink).unwrap()
    }

    /// Resets the card as its machine does, for tests without one.
    #[cfg(test)]
    pub(crate) fn reset(&mut self) {
        let (function, bus) = (&mut self.function, self.server.bus());
        hamlyn_bus::Function::reset(function, bus, hamlyn_bus::ResetCause::DeviceReset);
    }

    /// Sets how long an access may wait for the card, for tests that must not depend on time.
    #[cfg(test)]
    pub(crate) fn set_access_deadline(&mut self, deadline: Duration) {
        self.server.set_access_deadline(deadline);
        if let Some(doorbells) = &mut self.doorbells {
            doorbells.server.set_access_deadline(deadline);
        }
    }

    pub(crate) fn is_held(&self, socket: Socket) -> bool {
        match socket {
            Socket::Card => self.server.is_held(),
            Socket::Doorbells => self.doorbells.as_ref().is_some_and(|doorbells| doorbells.server.is_held()),
            // Registers of express memory can always be read.
            Socket::Stores | Socket::Express(_) => false,
        }
    }

    /// Completes reads that the card has deferred. An answer that comes too late is harmless.
    fn answer_late_reads(&mut self) {
        while let Some(answer) = self.function.late_answer() {
            if let Err(error) = self.server.complete_read(answer.token, answer.bytes()) {
                tracing::debug!("a read that waited: {error}");
            }
        }
    }

    /// Whether the card accepts packets now.
    pub(crate) fn takes_packets(&self) -> bool {
        self.function.takes_packets()
    }

    /// Passes a neighbour's packet to the card, if it [accepts any](Station::takes_packets).
    pub(crate) fn packet_arrived(&mut self, packet: &Packet<'_>) {
        self.function.packet_arrived(self.server.bus(), packet);
        self.answer_late_reads();
    }

    /// Announces to the machine that the card sleeps, then checks once more. Returns `false` if
    /// there is work. A card that waits for space on its link resumes as soon as there is some, so
    /// the machine need not wake it.
    pub(crate) fn sleep(&mut self, for_room: bool) -> bool {
        (for_room || self.function.sleep(self.server.bus())) && self.function.sleep_for_stores()
    }

    /// Ticks if it is due. The tick may create packets to send, so call it before
    /// [`Station::turn`].
    pub(crate) fn tick(&mut self) {
        self.function.tick(self.server.bus());
        self.answer_late_reads();
    }

    /// Returns the time left until the next tick.
    pub(crate) fn alarm(&self) -> Option<Duration> {
        self.function.alarm()
    }

    /// Returns the time of the next tick, in the host's time.
    pub(crate) fn next_tick(&self) -> Option<Duration> {
        self.function.next_tick()
    }

    /// Drops the link, because the switch has given it up.
    pub(crate) fn unlink(&mut self) {
        self.function.uplink.lose("the switch has given it up");
        if self.function.uplink.take_lost().is_some() {
            self.link_changed();
        }
    }

    pub(crate) fn link_changed(&mut self) {
        self.function.link_changed(self.server.bus());
    }

    /// Parses rules for faults of this card.
    pub(crate) fn rules(&self, text: &str) -> Result<Rules, RuleError> {
        Rules::parse(text, &Contract::of(self.function.model()))
    }

    /// Starts rules for faults, which replace the earlier ones.
    pub(crate) fn start_faults(&mut self, rules: Rules, seed: u64) {
        self.function.faults.start(rules, seed);
    }

    /// Returns the card's rules for faults.
    pub(crate) fn faults(&mut self, name: &str) -> CardFaults {
        let faults = self.function.faults.get();
        let (seed, rules) = faults.map(|faults| (faults.seed(), faults.tallies())).unwrap_or_default();
        CardFaults { card: name.to_owned(), seed, rules }
    }

    /// Begins to record what the card does into a ring, or ends it.
    pub(crate) fn set_tap(&mut self, ring: Option<Writer>) {
        self.function.record_into(ring);
    }

    /// Returns what a trace says of the card.
    pub(crate) fn card_name(&self, name: &str) -> CardName {
        let counters = self.function.counters().into_iter().map(|(name, _)| name.to_owned()).collect();
        let (model, host) = (self.function.model().to_owned(), self.function.uplink.host());
        let regions = self.function.regions().iter().map(RegionName::from).collect();
        CardName { name: name.to_owned(), model, host, counters, regions, settings: self.settings.clone() }
    }

    pub(crate) fn counters(&self) -> Value {
        let counters: Map<String, Value> =
            self.function.counters().into_iter().map(|(name, count)| (name.into(), count.into())).collect();
        let express = self.express.iter().flat_map(ExpressServers::servers);
        let servers =
            self.doorbells.iter().map(|doorbells| &doorbells.server).chain([&self.server]).chain(express);
        let mut messages = BTreeMap::new();
        for counters in servers.map(|server| *server.counters()) {
            let failures = counters.failures().map(|(name, count)| (name.to_owned(), count));
            for (name, count) in
                counters.messages().map(|(name, count)| (name.to_string(), count)).chain(failures)
            {
                *messages.entry(name).or_insert(0) += count;
            }
        }
        let mut all = json!({
            "host": self.function.uplink.host(),
            "machine": self.server.has_client(),
            "enabled": self.function.is_enabled(),
            "card": counters,
            "bus": messages,
        });
        if let Some(express) = &self.express {
            all["express"] = express.counters();
        }
        // Only cards that can snoop stores report whether they do.
        if let Some(snooping) = self.function.snooping() {
            all["snooped"] = snooping.has_told().into();
        }
        all
    }
}

#[cfg(test)]
#[path = "station_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "station_waits_tests.rs"]
pub(crate) mod waits_tests;
