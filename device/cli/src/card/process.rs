//! The event loop of the card process, and its policy of when to look and when to sleep.
//!
//! What wakes it: a message of the machine (a doorbell among them), the link's bell, the switch hanging up, somebody
//! who asks for the counters, a signal. While awake it takes what has arrived before it sends (section 2.8), a bounded
//! batch at a time so that the machine's messages are answered in between. When there is nothing left it goes on
//! looking for `--spin` microseconds (none by default: on few cores the others need the time more), then tells
//! everybody that it sleeps, looks once more, and waits.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::Context;
use event_manager::{
    EventManager, EventOps, EventSet, Events, MutEventSubscriber, SubscriberId, SubscriberOps,
};
use hamlyn_bus::Server;
use hamlyn_fabric::Link;
use hamlyn_models::card::{BarKind, Card, Progress};
use hamlyn_models::hamlyn::HamlynCard;
use serde_json::{Map, Value, json};

use super::args::{CardArgs, Model};
use super::function::{CardFunction, description};
use super::uplink::{RETRY, Uplink};
use crate::stat::StatServer;

/// Packets taken and sent before the descriptors are looked at again.
const BATCH: usize = 32;

const SERVER: u32 = 0;
const BELL: u32 = 1;
const LIFELINE: u32 = 2;
const STAT: u32 = 3;
const STOP: u32 = 4;

/// Runs the card until a signal ends it.
pub fn run(args: CardArgs) -> anyhow::Result<()> {
    let (process, host) = CardProcess::start(&args)?;
    tracing::info!(
        "card on {}, host {host} of the switch at {}",
        args.socket.display(),
        args.switch.display()
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

/// Lets go of a link that is of no use any more, and takes up a new one when the switch is back.
fn tend_link(manager: &mut EventManager<CardProcess>, id: SubscriberId) -> anyhow::Result<()> {
    let process = manager.subscriber_mut(id)?;
    if let Some(link) = process.function.uplink.take_lost() {
        tracing::warn!("the switch has gone; asking for it again every {RETRY:?}");
        process.function.link_changed(process.server.bus());
        let mut ops = manager.event_ops(id)?;
        watch(&link).try_for_each(|events| ops.remove(events))?;
    } else if process.function.uplink.reconnect() {
        tracing::info!("the switch is back");
        process.function.link_changed(process.server.bus());
        let events: Vec<Events> = process.function.uplink.link().into_iter().flat_map(watch).collect();
        let mut ops = manager.event_ops(id)?;
        events.into_iter().try_for_each(|events| ops.add(events))?;
    }
    Ok(())
}

/// The descriptors of a link, for the event manager.
fn watch(link: &Link) -> impl Iterator<Item = Events> {
    let lifeline = link.lifeline().map(|fd| (fd.as_raw_fd(), LIFELINE));
    let bell = Some((link.bell().as_raw_fd(), BELL));
    bell.into_iter().chain(lifeline).map(|(fd, data)| Events::with_data_raw(fd, data, EventSet::IN))
}

struct CardProcess {
    server: Server,
    function: CardFunction,
    stat: StatServer,
    stop: UnixStream,
    stopped: bool,
    spin: Duration,
    /// When there was last something to do.
    busy: Instant,
}

impl CardProcess {
    fn start(args: &CardArgs) -> anyhow::Result<(Self, u16)> {
        let card: Box<dyn Card> = match args.model {
            Model::Hamlyn => Box::new(HamlynCard::new(args.options())?),
        };
        let windows = card.identity().bars;
        let window = windows.iter().find(|bar| matches!(bar.kind, BarKind::Window { .. }));
        let server = Server::bind(&args.socket, description(card.as_ref()))?;
        let uplink =
            Uplink::new(args.switch.clone(), args.host, HamlynCard::largest_packet(args.packet_size));
        let mut function = CardFunction::new(card, uplink);
        if let Some(pages) = window.and_then(|bar| server.bus().pages(bar.index.into())) {
            function.set_window(pages.clone());
        }
        let host = function.uplink.connect()?.0;
        function.link_changed(server.bus());
        let (stop, ring) = UnixStream::pair().context("cannot make a socket pair")?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::low_level::pipe::register(signal, ring.try_clone()?)
                .with_context(|| format!("cannot catch signal {signal}"))?;
        }
        let stat = StatServer::bind("card", &args.name())?;
        let (stopped, busy) = (false, Instant::now());
        Ok((Self { server, function, stat, stop, stopped, spin: args.spin(), busy }, host))
    }

    /// Works for a while, and ticks when it is time: after the machine's messages, among which may be the one that the
    /// card would miss. Says how long the loop may then wait for events, in milliseconds: 0 to look and go on, -1
    /// for as long as it takes.
    fn work(&mut self) -> i32 {
        let wait = self.carry();
        let Some(alarm) = self.function.tick(self.server.bus()) else { return wait };
        // Rounded up: the card must not be asked before its time.
        let alarm = i32::try_from(alarm.as_millis() + 1).unwrap_or(i32::MAX);
        if wait < 0 { alarm } else { wait.min(alarm) }
    }

    /// Takes what has arrived and sends what is to be sent. Says how long the loop may wait, as far as that goes.
    fn carry(&mut self) -> i32 {
        let bus = self.server.bus();
        let received = (0..BATCH).take_while(|_| self.function.receive(bus)).count();
        let mut progress = self.function.transmit(bus);
        let idle = received == 0 && progress != Progress::Worked;
        for _ in 1..BATCH {
            if progress != Progress::Worked {
                break;
            }
            progress = self.function.transmit(bus);
        }
        if !idle {
            self.busy = Instant::now();
            return 0;
        }
        if !self.spin.is_zero() && self.busy.elapsed() < self.spin {
            return 0;
        }
        let full = progress == Progress::LinkFull;
        let asleep = (full || self.function.sleep(bus)) && self.function.uplink.sleep(full);
        match (asleep, self.function.uplink.link()) {
            (false, Some(_)) => 0,
            (_, None) => RETRY.as_millis() as i32,
            (true, Some(_)) => -1,
        }
    }

    fn counters(&self) -> Value {
        let named: Map<String, Value> =
            self.function.counters().into_iter().map(|(name, count)| (name.into(), count.into())).collect();
        let (refused, counters): (Map<_, _>, Map<_, _>) =
            named.into_iter().partition(|(name, _)| name.starts_with("refused_"));
        let refused: Map<_, _> = refused
            .into_iter()
            .map(|(name, count)| (name.trim_start_matches("refused_").into(), count))
            .collect();
        let messages: Map<String, Value> =
            self.server.counters().messages().map(|(name, count)| (name.to_string(), count.into())).collect();
        json!({
            "host": self.function.uplink.host(),
            "machine": self.server.has_client(),
            "enabled": self.function.is_enabled(),
            "card": counters,
            "refused": refused,
            "bus": messages,
        })
    }
}

impl MutEventSubscriber for CardProcess {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        let fixed = [
            (self.server.as_fd().as_raw_fd(), SERVER),
            (self.stat.as_raw_fd(), STAT),
            (self.stop.as_raw_fd(), STOP),
        ];
        let fixed = fixed.map(|(fd, data)| Events::with_data_raw(fd, data, EventSet::IN));
        for events in fixed.into_iter().chain(self.function.uplink.link().into_iter().flat_map(watch)) {
            if let Err(error) = ops.add(events) {
                tracing::error!("cannot watch a descriptor: {error}");
                self.stopped = true;
            }
        }
    }

    fn process(&mut self, events: Events, _: &mut EventOps<'_>) {
        match events.data() {
            SERVER => {
                if let Err(error) = self.server.process(&mut self.function) {
                    tracing::error!("the vfio-user server: {error}");
                }
            }
            BELL => {
                if let Some(link) = self.function.uplink.link() {
                    link.silence_bell();
                }
            }
            LIFELINE => self.function.uplink.lose(),
            STAT => self.stat.answer(|| self.counters()),
            STOP => self.stopped = true,
            other => tracing::error!("an event of nobody: {other}"),
        }
    }
}
