//! The card as PCI functions on the bus: the card's own, and one for its doorbells.

mod faulty;

use std::collections::VecDeque;
use std::time::Duration;

use hamlyn_abi::family::identity::{ULN_REG_MAGIC, ULN_REG_SCRATCH};
use hamlyn_bus::{
    Answer, Area, Bar, BarRead, Bus, Description, Function, Msix, ReadToken, ResetCause, SharedPages, Widths,
};
use hamlyn_card::card::{self, BarKind, Card, Posted, Progress, Reading, Region};
use hamlyn_card::ports::{Clock, Packet, Ports};
use hamlyn_fabric::one_way::Writer;
use hamlyn_faults::State;
use hamlyn_replay::record::RecordedCard;
use hamlyn_trace::record::Kind;

use super::catalogue::{self, Choice};
use super::clock::{CardClock, SystemClock};
use super::ports::{BusPorts, Pages};
use super::snooping::Snooping;
use super::trace::{Tap, TracedLink, TracedPorts, record};
use super::uplink::{Neighbours, SendPaths, Uplink, source_of};
use faulty::Faulty;

/// BAR of the registers that all models have.
const REGISTERS: usize = 0;
/// BAR in which the bus keeps the MSI-X table and pending bits.
const MSIX_BAR: usize = 1;
/// Subsystem id, chosen by this project.
const SUBSYSTEM: u16 = 1;

/// A card between its machine and its link.
pub(super) struct CardFunction {
    card: Box<dyn Card + Send>,
    /// How the card was made, if it can be made again.
    choice: Option<Choice>,
    pub(super) uplink: Uplink,
    windows: Pages,
    clock: CardClock,
    /// Reads that the card answers later, oldest first.
    late: VecDeque<LateRead>,
    snooping: Option<Snooping>,
    /// Records what the card does, while there is a reader.
    tap: Option<Tap>,
    /// What goes wrong by rule.
    pub(super) faults: Faulty,
    /// For the access that waits at each function: the maximum number of stores that were made
    /// before it and not yet taken.
    stores_before: [Option<usize>; FUNCTIONS],
}

/// Number of a card's PCI functions. Each orders its own accesses.
const FUNCTIONS: usize = 2;
const FIRST: usize = 0;
const SECOND: usize = 1;

/// Maximum number of deferred reads, which is the bus's limit. The bus makes no more reads while
/// that many wait. If one more comes, the oldest has been answered with all ones meanwhile.
const MAX_LATE_READS: usize = 256;

/// A read that the card answers later.
struct LateRead {
    /// The card's number for the read.
    number: u64,
    token: ReadToken,
    width: usize,
}

/// The answer to a deferred read.
pub(super) struct LateAnswer {
    pub(super) token: ReadToken,
    value: [u8; 8],
    width: usize,
}

impl LateAnswer {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.value[..self.width]
    }
}

/// Converts the card's identity to the bus's description.
pub(super) fn description(card: &dyn Card) -> Description {
    let identity = card.identity();
    Description {
        vendor: identity.vendor,
        device: identity.device,
        revision: 0,
        class: identity.class,
        subsystem_vendor: identity.vendor,
        subsystem: SUBSYSTEM,
        bars: identity.bars.iter().map(bar).collect(),
        msix: Some(Msix { bar: MSIX_BAR, vectors: identity.vectors }),
    }
}

/// Describes an additional function of the card. It must not have areas that the guest maps.
pub(super) fn doorbell_description(card: &dyn Card, doorbells: Posted) -> Description {
    let identity = card.identity();
    let shown = identity.bars.iter().filter(|bar| bar.index == doorbells.bar);
    Description {
        device: doorbells.device,
        class: doorbells.class,
        bars: shown.map(|shown| Bar { index: 0, areas: Vec::new(), ..bar(shown) }).collect(),
        msix: None,
        ..description(card)
    }
}

fn bar(bar: &card::Bar) -> Bar {
    Bar {
        index: bar.index.into(),
        size: bar.size,
        is_64bit: bar.wide,
        prefetchable: bar.wide,
        areas: match bar.kind {
            BarKind::Registers => Vec::new(),
            BarKind::Window { used } => vec![Area { offset: 0, size: used }],
        },
        widths: widths(bar.widths),
    }
}

fn widths(widths: card::Widths) -> Widths {
    [
        (card::Widths::BYTE, Widths::BYTE),
        (card::Widths::WORD, Widths::WORD),
        (card::Widths::DWORD, Widths::DWORD),
        (card::Widths::QWORD, Widths::QWORD),
    ]
    .into_iter()
    .filter(|(width, _)| widths.contains(*width))
    .map(|(_, width)| width)
    .collect()
}

/// Asks a card for something that it tells without ports.
fn ask<T>(card: &mut dyn Card, tap: Option<&Tap>, verb: impl FnOnce(&mut dyn Card) -> T) -> T {
    match tap.filter(|tap| tap.is_recording()) {
        Some(tap) => verb(&mut RecordedCard::new(card, tap)),
        None => verb(card),
    }
}

impl CardFunction {
    pub(super) fn new(card: Box<dyn Card + Send>, uplink: Uplink, snooping: Option<Snooping>) -> Self {
        let (windows, late, stores_before) = (Pages::default(), VecDeque::new(), [None; FUNCTIONS]);
        let clock = CardClock::default();
        let (tap, faults) = (None, Faulty::default());
        Self { card, choice: None, uplink, windows, clock, late, snooping, tap, faults, stores_before }
    }

    /// Sets the memory of a mapped BAR, once the bus has allocated it.
    pub(super) fn set_window(&mut self, bar: u8, pages: SharedPages) {
        self.windows.put(bar, pages);
    }

    /// Calls a method of the card, and forwards the changes of watched pages that may follow.
    fn with_ports<T>(
        &mut self,
        bus: &Bus,
        verb: impl FnOnce(&mut dyn Card, &Ports<'_>, &mut Uplink) -> T,
    ) -> T {
        self.with_tap(bus, |card, ports, uplink, _| verb(card, ports, uplink))
    }

    /// Does the same with a method that the recorder is told of.
    fn with_tap<T>(
        &mut self,
        bus: &Bus,
        verb: impl FnOnce(&mut dyn Card, &Ports<'_>, &mut Uplink, Option<&Tap>) -> T,
    ) -> T {
        let result = self.call(bus, verb);
        if self.snooping.is_some() {
            self.tell_of_snooping(bus);
        }
        result
    }

    fn call<T>(
        &mut self,
        bus: &Bus,
        verb: impl FnOnce(&mut dyn Card, &Ports<'_>, &mut Uplink, Option<&Tap>) -> T,
    ) -> T {
        let services = BusPorts(bus);
        let ports =
            Ports { dma: &services, windows: &self.windows, interrupt: &services, clock: &self.clock };
        let faulty = self.faults.ports(ports);
        let ports = faulty.as_ref().map_or(ports, |faulty| faulty.ports());
        let (card, uplink) = (self.card.as_mut(), &mut self.uplink);
        let Some(tap) = &self.tap else { return verb(card, &ports, uplink, None) };
        if tap.is_recording() {
            return verb(&mut RecordedCard::new(card, tap), &ports, uplink, None);
        }
        let result = verb(card, &TracedPorts { ports, tap }.ports(), uplink, Some(tap));
        tap.end_call(self.card.counts());
        result
    }

    /// Sets how the card was made.
    pub(super) fn set_choice(&mut self, choice: &Choice) {
        self.choice = Some(choice.clone());
    }

    /// Begins a recording if a reader waits for one, when the card is as after a reset.
    ///
    /// Some things outlive a reset, by which other hosts tell the card's earlier packets from its
    /// later ones. So another card takes the place of this one, as after a restart of the process.
    fn begin_recording(&mut self, bus: &Bus) {
        if !self.tap.as_ref().is_some_and(Tap::begins_recording) {
            return;
        }
        // The pages that it watches are let go.
        self.with_ports(bus, |card, ports, _| card.reset(ports));
        self.note(Tap::begin_recording);
        match self.choice.as_ref().map(Choice::make) {
            Some(Ok(card)) => self.card = card,
            Some(Err(error)) => tracing::error!("cannot make the card anew for its recording: {error}"),
            None => {}
        }
        self.link_changed(bus);
        if let Some(snoops) = self.snooping.as_ref().map(Snooping::has_told) {
            self.with_ports(bus, |card, ports, _| card.snooping_changed(ports, snoops));
        }
        self.with_ports(bus, |card, ports, _| card.reset(ports));
    }

    /// Begins to record what the card does into a ring, or ends it.
    pub(super) fn record_into(&mut self, ring: Option<Writer>) {
        self.tap = ring.map(|ring| Tap::new(ring, self.card.counts()));
    }

    fn note(&self, note: impl FnOnce(&Tap)) {
        if let Some(tap) = &self.tap {
            note(tap);
        }
    }

    /// Forwards the card's watched pages to the plugin, then reports to the card whether stores are
    /// snooped.
    fn tell_of_snooping(&mut self, bus: &Bus) {
        self.tell_what_is_watched();
        if let Some(snoops) = self.snooping.as_mut().and_then(Snooping::news) {
            self.call(bus, |card, ports, _, _| card.snooping_changed(ports, snoops));
            self.tell_what_is_watched();
        }
    }

    fn tell_what_is_watched(&mut self) {
        let Some(snooping) = &mut self.snooping else { return };
        while let Some((page, on)) = ask(self.card.as_mut(), self.tap.as_ref(), |card| card.watch_change()) {
            snooping.watch(page, on);
        }
    }

    /// Returns the source of the machine's stores.
    pub(super) fn snooping(&self) -> Option<&Snooping> {
        self.snooping.as_ref()
    }

    /// Handles a message of the plugin, or a plugin that has connected or disconnected.
    pub(super) fn hear_plugin(&mut self, bus: &Bus) {
        let has_waiter = self.snooping.as_mut().is_some_and(Snooping::look);
        if has_waiter {
            // The last stores of a plugin that has left are taken before the next plugin is
            // accepted.
            self.take_stores(bus, self.most_stores());
            self.snooping.as_mut().map(Snooping::accept);
        }
        self.tell_of_snooping(bus);
    }

    fn most_stores(&self) -> usize {
        self.snooping.as_ref().map_or(0, Snooping::most)
    }

    /// Passes up to `most` stores to the card while it accepts them. Returns the number of stores
    /// passed.
    pub(super) fn take_stores(&mut self, bus: &Bus, most: usize) -> usize {
        let mut taken = 0;
        while taken < most && self.takes_stores() {
            let Some(store) = self.snooping.as_mut().and_then(Snooping::next) else {
                self.stores_before.iter_mut().flatten().for_each(|before| *before = 0);
                self.tell_of_snooping(bus);
                break;
            };
            self.note(|tap| tap.store(&store));
            self.with_ports(bus, |card, ports, _| card.store_seen(ports, &store));
            self.note(Tap::done);
            self.stores_before.iter_mut().flatten().for_each(|before| *before = before.saturating_sub(1));
            taken += 1;
        }
        taken
    }

    /// Whether the next access to a function can be made now: all earlier stores have been taken,
    /// and the card accepts stores, because the access may be another one.
    fn is_ready_at(&mut self, bus: &Bus, function: usize) -> bool {
        let most = self.most_stores();
        if self.stores_before[function].is_none() {
            faulty::access_has_come(self, function);
        }
        let before = *self.stores_before[function].get_or_insert(most);
        self.take_stores(bus, before);
        let ready =
            self.stores_before[function] == Some(0) && self.takes_stores() && !self.faults.holds(function);
        if ready {
            // The access is made now.
            self.stores_before[function] = None;
        }
        ready
    }

    /// Handles an access to a function that has waited for the maximum time. Returns whether the
    /// card drops work to make room for it.
    fn expired_at(&mut self, bus: &Bus, function: usize) -> bool {
        let gives_up =
            !self.card.takes_stores() && self.with_ports(bus, |card, ports, _| card.make_room(ports));
        if !gives_up {
            self.stores_before[function] = None;
            self.faults.let_go(function);
        }
        gives_up
    }

    pub(super) fn takes_stores(&self) -> bool {
        self.card.takes_stores() && !self.faults.is(State::Stuck) && !self.faults.is(State::Full)
    }

    pub(super) fn takes_packets(&self) -> bool {
        self.card.takes_packets() && !self.faults.holds_packets()
    }

    /// Prepares to wait for the bell of the store ring. Returns `false` if there are stores to
    /// take. A card that accepts no stores does not wait for any.
    pub(super) fn sleep_for_stores(&mut self) -> bool {
        !self.takes_stores() || self.snooping.as_mut().is_none_or(Snooping::sleep)
    }

    pub(super) fn transmit(&mut self, bus: &Bus, neighbours: &mut dyn Neighbours) -> Progress {
        if self.faults.is(State::Stuck) {
            return Progress::Idle;
        }
        self.with_tap(bus, |card, ports, uplink, tap| {
            let link = &mut SendPaths { uplink, neighbours };
            match tap {
                Some(tap) => card.transmit(ports, &mut TracedLink { link, tap }),
                None => card.transmit(ports, link),
            }
        })
    }

    pub(super) fn sleep(&mut self, bus: &Bus) -> bool {
        self.faults.is(State::Stuck) || self.with_ports(bus, |card, ports, _| card.sleep(ports))
    }

    /// Passes the next received packet to the card, if there is one and the card accepts it.
    pub(super) fn receive(&mut self, bus: &Bus) -> bool {
        if !self.takes_packets() {
            return false;
        }
        if self.faults.takes_packets() {
            return faulty::receive(self, bus);
        }
        self.with_tap(bus, |card, ports, uplink, tap| {
            let protocol = uplink.protocol();
            let Some(record) = uplink.peek() else { return false };
            if let Some(source) = source_of(&record, protocol) {
                if let Some(tap) = tap {
                    tap.arrived(source, &[record.payload]);
                }
                card.packet_arrived(ports, &Packet { source, bytes: record.payload.into() });
                if let Some(tap) = tap {
                    tap.done();
                }
            }
            uplink.consume();
            true
        })
    }

    /// Passes a neighbour's packet to the card.
    pub(super) fn packet_arrived(&mut self, bus: &Bus, packet: &Packet<'_>) {
        if self.faults.takes_packets() {
            faulty::packet_arrived(self, bus, packet);
        } else {
            self.deliver(bus, packet);
        }
    }

    /// Passes a packet to the card.
    fn deliver(&mut self, bus: &Bus, packet: &Packet<'_>) {
        if let Some(tap) = &self.tap {
            let (mut pieces, mut bytes) = (Vec::new(), packet.bytes);
            while let Some(piece) = bytes.take(usize::MAX) {
                pieces.push(piece);
            }
            tap.arrived(packet.source, &pieces);
        }
        self.with_ports(bus, |card, ports, _| card.packet_arrived(ports, packet));
        self.note(Tap::done);
    }

    pub(super) fn link_changed(&mut self, bus: &Bus) {
        let place = self.uplink.place().filter(|_| !self.faults.is(State::Down));
        self.note(|tap| tap.link(place));
        self.with_ports(bus, |card, ports, _| card.link_changed(ports, place));
    }

    /// Ticks if it is due.
    pub(super) fn tick(&mut self, bus: &Bus) {
        if let Some(snooping) = &mut self.snooping {
            snooping.tick();
        }
        faulty::tick(self, bus);
        if !self.faults.is(State::Stuck) && self.card.alarm().is_some_and(|alarm| alarm <= self.clock.now()) {
            self.with_ports(bus, |card, ports, _| card.tick(ports));
        }
    }

    /// Returns the time left until the next tick.
    pub(super) fn alarm(&self) -> Option<Duration> {
        Some(self.next_tick()?.saturating_sub(SystemClock.now()))
    }

    /// Returns the time of the next tick, in the host's time.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        let door = self.snooping.as_ref().and_then(Snooping::alarm);
        let own = if self.faults.is(State::Stuck) { None } else { self.card.alarm() };
        [self.clock.plan(own), door, self.faults.next_tick(self.card.takes_packets())]
            .into_iter()
            .flatten()
            .min()
    }

    fn read(&mut self, bus: &Bus, bar: usize, offset: u64, width: usize) -> Reading {
        if bar == REGISTERS && offset == u64::from(ULN_REG_MAGIC) && !self.card.is_enabled() {
            // A driver looks here first.
            self.begin_recording(bus);
        }
        let (bar, width) = (bar as u8, width as u8);
        let reading = self.with_ports(bus, |card, ports, _| card.register_read(ports, bar, offset, width));
        let reading = faulty::reading(self, bar, offset, reading);
        self.note(|tap| tap.read(bar, offset, width, reading));
        reading
    }

    /// Returns the complement of the value that the driver last wrote to the scratch register,
    /// which identifies the card.
    pub(super) fn scratch(&mut self, bus: &Bus) -> u32 {
        let offset = ULN_REG_SCRATCH.into();
        let read =
            self.with_ports(bus, |card, ports, _| card.register_read(ports, REGISTERS as u8, offset, 4));
        read.now().unwrap_or(0) as u32
    }

    fn write(&mut self, bus: &Bus, bar: usize, offset: u64, data: &[u8]) {
        let mut value = [0; 8];
        value[..data.len()].copy_from_slice(data);
        let (value, width) = (u64::from_le_bytes(value), data.len() as u8);
        let bar = bar as u8;
        self.note(|tap| tap.begin_write(bar, offset, width, value));
        faulty::write(self, bus, bar, offset, width, value);
        self.note(Tap::done);
    }

    /// Returns the next answer to a deferred read, if there is one.
    pub(super) fn late_answer(&mut self) -> Option<LateAnswer> {
        while !self.late.is_empty() {
            let (number, value) = ask(self.card.as_mut(), self.tap.as_ref(), |card| card.late_reading())?;
            self.note(|tap| tap.note(record(Kind::LateRead, number, value)));
            let place = self.late.iter().position(|read| read.number == number);
            if let Some(LateRead { token, width, .. }) = place.and_then(|place| self.late.remove(place)) {
                return Some(LateAnswer { token, value: value.to_le_bytes(), width });
            }
        }
        None
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.card.is_enabled()
    }

    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.card.counters()
    }

    pub(super) fn regions(&self) -> Vec<Region> {
        self.card.regions()
    }

    /// Returns the name of the card's model.
    pub(super) fn model(&self) -> &'static str {
        catalogue::model_of(&self.card.identity()).map_or("", |model| model.name)
    }
}

impl Function for CardFunction {
    fn is_ready(&mut self, bus: &Bus) -> bool {
        self.is_ready_at(bus, FIRST)
    }

    fn access_expired(&mut self, bus: &Bus) -> bool {
        self.expired_at(bus, FIRST)
    }

    fn bar_read(&mut self, bus: &Bus, read: BarRead, data: &mut [u8]) -> Answer {
        let width = data.len();
        match self.read(bus, read.bar, read.offset, width) {
            Reading::Now(value) => data.copy_from_slice(&value.to_le_bytes()[..width]),
            Reading::Later(number) => {
                if self.late.len() == MAX_LATE_READS {
                    self.late.pop_front();
                }
                self.late.push_back(LateRead { number, token: read.token, width });
                return Answer::Later;
            }
        }
        Answer::Now
    }

    fn bar_write(&mut self, bus: &Bus, bar: usize, offset: u64, data: &[u8]) {
        self.write(bus, bar, offset, data);
    }

    fn reset(&mut self, bus: &Bus, cause: ResetCause) {
        tracing::debug!("reset ({cause:?})");
        self.note(|tap| tap.text(record(Kind::Reset, 0, 0), &format!("{cause:?}")));
        // The bus has answered these reads.
        self.late.clear();
        self.stores_before[FIRST] = None;
        // The card forgets the state that these stores refer to, so a reset need not wait for
        // space.
        if let Some(snooping) = &mut self.snooping {
            snooping.skip();
        }
        self.with_ports(bus, |card, ports, _| card.reset(ports));
        self.begin_recording(bus);
    }
}

/// The card's second function. A client with access only to this one can ring doorbells and nothing
/// else: only the first function resets the card.
pub(super) struct DoorbellFunction<'a> {
    pub(super) card: &'a mut CardFunction,
    /// The first function's bus.
    pub(super) bus: &'a Bus,
    pub(super) bar: usize,
}

impl Function for DoorbellFunction<'_> {
    fn is_ready(&mut self, _: &Bus) -> bool {
        self.card.is_ready_at(self.bus, SECOND)
    }

    fn access_expired(&mut self, _: &Bus) -> bool {
        self.card.expired_at(self.bus, SECOND)
    }

    fn bar_read(&mut self, _: &Bus, read: BarRead, data: &mut [u8]) -> Answer {
        // Posted accesses have no waiter, so the card does not defer reads here.
        let value = self.card.read(self.bus, self.bar, read.offset, data.len()).now().unwrap_or(0);
        data.copy_from_slice(&value.to_le_bytes()[..data.len()]);
        Answer::Now
    }

    fn bar_write(&mut self, _: &Bus, _: usize, offset: u64, data: &[u8]) {
        self.card.write(self.bus, self.bar, offset, data);
    }

    fn reset(&mut self, _: &Bus, cause: ResetCause) {
        tracing::debug!("reset of the doorbells ({cause:?})");
        self.card.stores_before[SECOND] = None;
    }
}
