//! A card with its machine's server: what a process that hosts one card has once, and one that
//! hosts many has often.
//!
//! **In which order.** The card is told of stores that are seen before any access that its machine
//! made after them: an access has come when the card is asked whether it takes it, and then all
//! stores that were made before are in their ring.
//!
//! **Who waits for whom.** While the card takes no stores they stay in their ring, and accesses in
//! their sockets: either may be one store too many for a FIFO. While it takes no packets they stay
//! in the link's ring. Nobody looks there then, and no descriptor of what is not looked at wakes
//! the process: a server watches a client whose access waits for its leaving alone, and who sleeps
//! asks the rings' other ends to ring for what the card takes, and for nothing else. Whatever makes
//! room is a verb of the card, and each of those is followed by a turn: something was sent (the
//! link's bell, or a neighbour, says when there is room for that), time has passed, the machine has
//! been reset. A turn lets accesses go on that wait, takes packets, takes stores, sends, and so on
//! from the beginning. An access waits for the stores before it and for none after it, so a
//! processor that stores without end keeps no other from its registers.

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
use serde_json::{Map, Value, json};

use super::express::{self, ExpressServers};
use super::function::{CardFunction, DoorbellFunction, description, doorbell_description};
use super::snooping::Snooping;
use super::uplink::{Neighbours, Uplink};
use crate::rundir::{doorbell_path, snoop_path};

/// Packets taken and sent, and stores taken, before the descriptors are looked at again.
const BATCH: usize = 32;
/// The time of a turn: another station's begins when it is over and the verb under way has ended. A
/// verb is bounded by the card.
const SLICE: Duration = Duration::from_micros(200);

/// What a person chooses about a card, wherever it runs.
#[derive(Debug, Clone)]
pub struct CardOptions {
    /// Its model, and what is chosen of that.
    pub choice: Choice,
    /// The most guest memory that it maps, in bytes.
    pub guest_memory: u64,
}

impl CardOptions {
    /// What it maps if nobody says otherwise.
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
}

/// The server of the card's second function.
struct DoorbellServer {
    server: Server,
    /// The first function's BAR that it shows.
    bar: usize,
}

/// The card's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    /// The card's own.
    Card,
    /// That of its second function.
    Doorbells,
    /// Where the machine's stores are told.
    Stores,
    /// That of a function that has express memory, by number.
    Express(u8),
}

impl Socket {
    /// A card has fewer.
    pub(crate) const MOST: u32 = 3 + MOST_HOSTS as u32;

    /// A number for each.
    pub(crate) fn number(self) -> u32 {
        match self {
            Socket::Card => 0,
            Socket::Doorbells => 1,
            Socket::Stores => 2,
            Socket::Express(number) => 3 + u32::from(number),
        }
    }

    /// The one that has such a number.
    pub(crate) fn of(number: u32) -> Socket {
        match number {
            0 => Socket::Card,
            1 => Socket::Doorbells,
            2 => Socket::Stores,
            number => Socket::Express((number - 3) as u8),
        }
    }

    /// Whether a machine uses it when it looks what devices there are, and hardly afterwards.
    pub(crate) fn is_quiet(self) -> bool {
        matches!(self, Socket::Express(_))
    }
}

/// What came of a station's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// Packets were taken or sent.
    Worked,
    /// There is nothing to do.
    Idle,
    /// There is something to send and no room on the link.
    Full,
}

impl Station {
    /// A card that waits for its machine at `socket`, and beside it for the machine's doorbells,
    /// and for what it does with the express memory that the uplink has.
    pub(crate) fn start(
        card: Box<dyn Card + Send>,
        socket: &Path,
        memory: GuestMemory,
        uplink: Uplink,
    ) -> anyhow::Result<Self> {
        let identity = card.identity();
        // Before the card's own socket: who finds that one may look whether this is there.
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
        Ok(Self { server, doorbells, express, function })
    }

    /// What to wait for: a socket's descriptor is readable when [`Station::serve`] has something to
    /// do there.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (Socket, RawFd)> + '_ {
        let doorbells =
            self.doorbells.as_ref().map(|doorbells| (Socket::Doorbells, doorbells.server.as_raw_fd()));
        let stores = self.function.snooping().map(|snooping| (Socket::Stores, snooping.as_raw_fd()));
        let express = self.express.iter().flat_map(ExpressServers::sockets);
        let express = express.map(|(number, fd)| (Socket::Express(number), fd));
        [(Socket::Card, self.server.as_raw_fd())].into_iter().chain(doorbells).chain(stores).chain(express)
    }

    /// The same for threads that have not the station, but for the quiet ones.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = (Socket, io::Result<Waiter>)> + '_ {
        let doorbells = self.doorbells.as_ref().map(|doorbells| (Socket::Doorbells, &doorbells.server));
        let servers = [(Socket::Card, &self.server)].into_iter().chain(doorbells);
        let stores = self.function.snooping().map(|snooping| (Socket::Stores, snooping.waiter()));
        servers.map(|(socket, server)| (socket, server.waiter())).chain(stores)
    }

    /// Handles the messages of the machine.
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

    /// Takes what has arrived before each packet that it sends (section 2.8), a bounded batch of
    /// either, for a bounded time.
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

    /// Lets accesses of the machine go on that wait, if the card takes them now.
    fn go_on(&mut self) -> bool {
        let mut went_on = false;
        for socket in [Socket::Card, Socket::Doorbells] {
            if self.is_held(socket) && self.function.takes_stores() {
                if let Err(error) = self.serve(socket) {
                    tracing::error!("a vfio-user server: {error}");
                }
                // Else there is no room again, or the machine does not read its answers: nobody is
                // to look without end.
                went_on |= !self.is_held(socket);
            }
        }
        went_on
    }

    /// How long an access may wait for the card, in tests that must not depend on time.
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
            // The registers of express memory can always be read.
            Socket::Stores | Socket::Express(_) => false,
        }
    }

    /// Answers reads that the card let wait. An answer that comes too late does no harm.
    fn answer_late_reads(&mut self) {
        while let Some(answer) = self.function.late_answer() {
            if let Err(error) = self.server.complete_read(answer.token, answer.bytes()) {
                tracing::debug!("a read that waited: {error}");
            }
        }
    }

    /// Whether the card takes packets now.
    pub(crate) fn takes_packets(&self) -> bool {
        self.function.takes_packets()
    }

    /// Takes a packet of a neighbour, if it [takes any](Station::takes_packets).
    pub(crate) fn packet_arrived(&mut self, packet: &Packet<'_>) {
        self.function.packet_arrived(self.server.bus(), packet);
        self.answer_late_reads();
    }

    /// Tells the machine that its card looks no more, and looks once more. `false`: there is
    /// something to do. A card that waits for room on its link goes on as soon as there is some,
    /// and the machine need not tell it to.
    pub(crate) fn sleep(&mut self, for_room: bool) -> bool {
        (for_room || self.function.sleep(self.server.bus())) && self.function.sleep_for_stores()
    }

    /// Ticks if it is time. There may be something to send then: this comes before
    /// [`Station::turn`].
    pub(crate) fn tick(&mut self) {
        self.function.tick(self.server.bus());
        self.answer_late_reads();
    }

    /// How long it is until the next tick.
    pub(crate) fn alarm(&self) -> Option<Duration> {
        self.function.alarm()
    }

    /// When the next tick is, in the host's time.
    pub(crate) fn next_tick(&self) -> Option<Duration> {
        self.function.next_tick()
    }

    /// The link is of no use any more: the switch has given it up.
    pub(crate) fn unlink(&mut self) {
        self.function.uplink.lose("the switch has given it up");
        if self.function.uplink.take_lost().is_some() {
            self.link_changed();
        }
    }

    pub(crate) fn link_changed(&mut self) {
        self.function.link_changed(self.server.bus());
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
        // Of a card that wants to see stores it matters whether it does; of others there is nothing
        // to say.
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
