//! The event loop of the card process, and its policy of polling and sleeping.
//!
//! These events wake it:
//! - a message of the machine, which may be a doorbell
//! - a snooped store
//! - the link's bell, or the switch hanging up
//! - a reader of the counters or of a trace, or a program that sets faults
//! - a signal
//!
//! While awake it takes received packets before it sends (section 2.8). It works in bounded
//! batches, so that the machine's messages are answered in between. When there is no work left it
//! polls for `--spin` microseconds (by default 0, because with few cores the other processes need
//! the time more). Then it announces to its peers that it sleeps, checks once more, and waits.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use event_manager::{
    EventManager, EventOps, EventSet, Events, MutEventSubscriber, SubscriberId, SubscriberOps,
};
use hamlyn_bus::GuestMemory;
use hamlyn_fabric::Link;
use rustix::thread::sched_yield;

use crate::faults::FaultServer;
use crate::limits;
use crate::signals::stop_on_signals;
use crate::stat::StatServer;
use crate::station::{CardOptions, Carried, Socket, Station};
use crate::trace::TraceServer;
use crate::uplink::{Alone, Packets, RETRY, Uplink};
use crate::wait::sooner;

const BELL: u32 = 0;
const STAT: u32 = 1;
const STOP: u32 = 2;
const TRACE: u32 = 3;
const FAULTS: u32 = 4;
/// The first of the machine's sockets.
const SOCKETS: u32 = 5;

/// Start options of a card process.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where its machine connects.
    pub socket: PathBuf,
    /// Where the switch listens.
    pub switch: PathBuf,
    /// Users that may own the switch.
    pub trusted: Vec<u32>,
    /// The host id to request; otherwise the switch chooses.
    pub host: Option<u16>,
    /// The card's model and settings.
    pub card: CardOptions,
    /// How long to poll for work before sleeping.
    pub spin: Duration,
}

impl Options {
    /// Returns the name of the process in `hamlyn stat`.
    fn name(&self) -> String {
        self.socket.file_stem().map_or_else(|| "card".into(), |stem| stem.to_string_lossy().into_owned())
    }
}

/// Runs the card until a signal ends it.
pub fn run(options: &Options) -> anyhow::Result<()> {
    limits::keep_guests_out_of_core_dumps();
    limits::allow_many_descriptors();
    let (process, host) = CardProcess::start(options)?;
    hamlyn_door::warn_of_unused_sockets();
    tracing::info!(
        "card on {}, host {host} of the switch at {}",
        options.socket.display(),
        options.switch.display()
    );
    let mut manager = EventManager::new().context("cannot make an event manager")?;
    let id = manager.add_subscriber(process);
    loop {
        tend_link(&mut manager, id)?;
        let process = manager.subscriber_mut(id).context("the card has left its event manager")?;
        if process.stopped {
            return Ok(());
        }
        let wait = process.work();
        manager.run_with_timeout(wait).context("cannot wait for events")?;
    }
}

/// Drops a lost link, and reconnects when the switch is back.
fn tend_link(manager: &mut EventManager<CardProcess>, id: SubscriberId) -> anyhow::Result<()> {
    let process = manager.subscriber_mut(id)?;
    if let Some((link, reason)) = process.station.function.uplink.take_lost() {
        tracing::warn!("the link to the switch has ended: {reason}; asking for another every {RETRY:?}");
        process.station.link_changed();
        let mut ops = manager.event_ops(id)?;
        watch(&link).map_or(Ok(()), |events| ops.remove(events))?;
    } else if process.station.function.uplink.reconnect() {
        tracing::info!("there is a link to the switch again");
        process.station.link_changed();
        let events = process.station.function.uplink.link().and_then(watch);
        let mut ops = manager.event_ops(id)?;
        events.map_or(Ok(()), |events| ops.add(events))?;
    }
    Ok(())
}

/// Returns the link's bell for the event manager.
fn watch(link: &Link) -> Option<Events> {
    link.bell().map(|fd| Events::with_data_raw(fd.as_raw_fd(), BELL, EventSet::IN))
}

struct CardProcess {
    station: Station,
    stat: StatServer,
    trace: TraceServer,
    faults: FaultServer,
    name: String,
    stop: UnixStream,
    stopped: bool,
    spin: Duration,
    /// When there was work last.
    busy: Instant,
}

impl CardProcess {
    fn start(options: &Options) -> anyhow::Result<(Self, u16)> {
        let card = options.card.make()?;
        let (switch, trusted) = (options.switch.clone(), options.trusted.clone());
        let mut uplink = Uplink::new(switch, trusted, options.host, Packets::of(&card.identity())?);
        // The functions of the card depend on the switch's answer.
        let host = uplink.connect()?.0;
        let memory = GuestMemory::Trusted { limit: options.card.guest_memory };
        let mut station = Station::start(card, &options.socket, memory, uplink)?;
        station.set_options(&options.card)?;
        station.link_changed();
        let stop = stop_on_signals()?;
        let (name, trace) = (options.name(), TraceServer::bind("card")?);
        let faults = FaultServer::bind("card")?;
        let stat = StatServer::bind("card", &name)?;
        let (stopped, busy, spin) = (false, Instant::now(), options.spin);
        Ok((Self { station, stat, trace, faults, name, stop, stopped, spin, busy }, host))
    }

    /// Ticks if it is due, after the machine's messages, because one of them may be what the card
    /// would otherwise time out on. Then works for a while. Returns how long the loop may wait for
    /// events, in milliseconds: 0 to check and continue, -1 without limit.
    fn work(&mut self) -> i32 {
        self.station.tick();
        let wait = self.carry();
        sooner(wait, self.station.alarm())
    }

    fn serve(&mut self, socket: Socket) {
        if let Err(error) = self.station.serve(socket) {
            tracing::error!("the vfio-user server: {error}");
        }
    }

    /// Takes received packets and sends. Returns the loop's time-out for this part.
    fn carry(&mut self) -> i32 {
        let carried = self.station.turn(&mut Alone);
        if carried == Carried::Worked {
            self.busy = Instant::now();
            return 0;
        }
        if !self.spin.is_zero() && self.busy.elapsed() < self.spin {
            // The peer may need this core.
            sched_yield();
            return 0;
        }
        let full = carried == Carried::Full;
        let takes_packets = self.station.takes_packets();
        let asleep = self.station.sleep(full) && self.station.function.uplink.sleep(full, takes_packets);
        match (asleep, self.station.function.uplink.link()) {
            (false, Some(_)) => 0,
            (_, None) => RETRY.as_millis() as i32,
            (true, Some(_)) => -1,
        }
    }
}

impl MutEventSubscriber for CardProcess {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        let fixed = [
            (self.stat.as_raw_fd(), STAT),
            (self.trace.as_raw_fd(), TRACE),
            (self.faults.as_raw_fd(), FAULTS),
            (self.stop.as_raw_fd(), STOP),
        ];
        let sockets = self.station.sockets().map(|(socket, fd)| (fd, SOCKETS + socket.number()));
        let fixed = sockets.chain(fixed).map(|(fd, data)| Events::with_data_raw(fd, data, EventSet::IN));
        for events in fixed.chain(self.station.function.uplink.link().and_then(watch)) {
            if let Err(error) = ops.add(events) {
                tracing::error!("cannot watch a descriptor: {error}");
                self.stopped = true;
            }
        }
    }

    fn process(&mut self, events: Events, _: &mut EventOps<'_>) {
        match events.data() {
            BELL => self.station.function.uplink.hear(),
            STAT => self.stat.answer(|| self.station.counters()),
            TRACE => self.trace.serve(vec![(&self.name, &mut self.station)]),
            FAULTS => _ = self.faults.serve(vec![(&self.name, &mut self.station)]),
            STOP => self.stopped = true,
            socket => self.serve(Socket::of(socket - SOCKETS)),
        }
    }
}
