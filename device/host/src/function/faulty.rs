//! What goes wrong by rule, between a card and its machine and link.

use std::cell::RefCell;
use std::mem::offset_of;
use std::time::Duration;

use hamlyn_abi::family::command::{
    ULN_REG_COMMAND_GO, ULN_REG_COMMAND_PAGE, ULN_REG_COMMAND_STATUS, UlnCommand,
};
use hamlyn_bus::Bus;
use hamlyn_card::card::Reading;
use hamlyn_card::ports::{Clock, Dma, Packet, Ports, VolatileSlice, read_value};
use hamlyn_faults::{Command, Faults, Rules, State};
use hamlyn_trace::record::Kind;
use zerocopy::IntoBytes;

use super::{CardFunction, REGISTERS};
use crate::clock::SystemClock;
use crate::faults::FaultyPorts;
use crate::ports::BusPorts;
use crate::trace::record;
use crate::uplink::source_of;

/// A card's faults, while there are rules.
#[derive(Debug, Default)]
pub(in super::super) struct Faulty(Option<Box<RefCell<Faults>>>);

impl Faulty {
    /// Starts rules, which replace the earlier ones. No rules end all faults.
    pub(in super::super) fn start(&mut self, rules: Rules, seed: u64) {
        let faults = self.0.get_or_insert_with(|| Box::new(RefCell::new(Faults::none())));
        faults.get_mut().start(rules, seed, SystemClock.now());
    }

    /// Returns the faults, while there are rules.
    pub(in super::super) fn get(&mut self) -> Option<&mut Faults> {
        self.0.as_deref_mut().map(RefCell::get_mut)
    }

    /// Returns ports that fail by rule.
    pub(super) fn ports<'a>(&'a self, ports: Ports<'a>) -> Option<FaultyPorts<'a>> {
        self.0.as_deref().map(|faults| FaultyPorts { ports, faults })
    }

    pub(super) fn is(&self, state: State) -> bool {
        self.ask(|faults| faults.is(state))
    }

    /// Whether the access that has come to a function waits longer.
    pub(super) fn holds(&self, function: usize) -> bool {
        self.ask(|faults| faults.holds(function, SystemClock.now()))
    }

    /// Ends the wait of the access at a function.
    pub(super) fn let_go(&mut self, function: usize) {
        if let Some(faults) = self.get() {
            faults.release(function);
        }
    }

    /// Whether packets stay in the link's ring for now.
    pub(super) fn holds_packets(&self) -> bool {
        self.ask(|faults| faults.is(State::Stuck) || faults.is(State::Down) || faults.is_full())
    }

    /// Whether packets pass through the rules.
    pub(super) fn takes_packets(&self) -> bool {
        self.ask(Faults::takes_packets)
    }

    /// Returns the time of the next tick, in the host's time.
    pub(super) fn next_tick(&self, takes_packet: bool) -> Option<Duration> {
        self.0.as_deref()?.borrow().alarm(takes_packet && !self.is(State::Stuck))
    }

    fn ask(&self, about: impl FnOnce(&Faults) -> bool) -> bool {
        self.0.as_deref().is_some_and(|faults| about(&faults.borrow()))
    }
}

/// Does what is due.
pub(super) fn tick(function: &mut CardFunction, bus: &Bus) {
    let now = SystemClock.now();
    let Some(faults) = function.faults.get() else { return };
    let due = faults.tick(now);
    while let Some(vector) = function.faults.get().and_then(|faults| faults.due_interrupt(now)) {
        if let Err(error) = bus.interrupts.interrupt(vector) {
            tracing::debug!("{error}");
        }
    }
    function.clock.jump(due.jump);
    if due.reset {
        function.with_ports(bus, |card, ports, _| card.reset(ports));
    }
    if due.link_changed {
        function.link_changed(bus);
    }
    deliver_due(function, bus);
    note(function);
    if function.faults.get().is_some_and(|faults| faults.is_over()) {
        function.faults = Faulty::default();
    }
}

/// Records the faults since the last call.
fn note(function: &mut CardFunction) {
    for rule in function.faults.get().map(Faults::take_notes).unwrap_or_default() {
        tracing::debug!("fault: {rule}");
        function.note(|tap| tap.text(record(Kind::Fault, 0, 0), &rule));
    }
}

/// Decides how long an access waits that has come to a function.
pub(super) fn access_has_come(function: &mut CardFunction, number: usize) {
    if let Some(faults) = function.faults.get() {
        faults.access(number, SystemClock.now());
        note(function);
    }
}

/// Returns what the machine reads instead of the card's answer.
pub(super) fn reading(function: &mut CardFunction, bar: u8, offset: u64, reading: Reading) -> Reading {
    let (Some(faults), Reading::Now(value)) = (function.faults.get(), reading) else { return reading };
    let is_status = bar == REGISTERS as u8 && offset == u64::from(ULN_REG_COMMAND_STATUS);
    let status = faults.status().filter(|_| is_status);
    let reading = Reading::Now(faults.read(bar, offset, status.map_or(value, u64::from)));
    note(function);
    reading
}

/// Makes a write as the rules say.
pub(super) fn write(function: &mut CardFunction, bus: &Bus, bar: u8, offset: u64, width: u8, value: u64) {
    let (mut times, mut status) = (1, None);
    if let Some(faults) = function.faults.get() {
        times = faults.write(bar, offset);
        let is_command = bar == REGISTERS as u8 && offset == u64::from(ULN_REG_COMMAND_GO);
        if is_command && times > 0 && faults.has_commands() {
            (times, status) = command(function, bus);
        }
    }
    for _ in 0..times {
        function.with_ports(bus, |card, ports, _| card.register_write(ports, bar, offset, width, value));
    }
    if let Some(mut status) = status {
        let address = command_page(function, bus) + offset_of!(UlnCommand, status) as u64;
        if let Err(error) = BusPorts(bus).write(address, VolatileSlice::from(status.as_mut_bytes())) {
            tracing::debug!("the status of a command: {error}");
        }
    }
    note(function);
}

/// Decides about the command in the page: how often it is carried out, and the status that it is
/// answered with instead of the card's.
fn command(function: &mut CardFunction, bus: &Bus) -> (u32, Option<u32>) {
    let head = read_value::<UlnCommand>(&BusPorts(bus), command_page(function, bus));
    // The card says by itself that it cannot reach the page.
    let (Ok(head), Some(faults)) = (head, function.faults.get()) else { return (1, None) };
    match faults.command(head.opcode) {
        Command::Times(times) => (times, None),
        Command::Refuse(status) => (0, Some(status)),
        Command::Answer(status) => (1, Some(status)),
    }
}

fn command_page(function: &mut CardFunction, bus: &Bus) -> u64 {
    let (bar, offset) = (REGISTERS as u8, ULN_REG_COMMAND_PAGE.into());
    let page = function.with_ports(bus, |card, ports, _| card.register_read(ports, bar, offset, 8));
    page.now().unwrap_or_default()
}

/// Takes the next packet of the link through the rules, or delivers one that is due.
pub(super) fn receive(function: &mut CardFunction, bus: &Bus) -> bool {
    if deliver_due(function, bus) {
        return true;
    }
    let protocol = function.uplink.protocol();
    let Some(arrived) = function.uplink.peek() else { return false };
    let packet = source_of(&arrived, protocol).map(|source| {
        let mut bytes = vec![0; arrived.payload.len()];
        arrived.payload.copy_to(&mut bytes[..]);
        (source, bytes)
    });
    function.uplink.consume();
    if let Some((source, bytes)) = packet {
        arrive(function, bus, source, bytes);
    }
    true
}

/// Takes a neighbour's packet through the rules.
pub(super) fn packet_arrived(function: &mut CardFunction, bus: &Bus, packet: &Packet<'_>) {
    let (mut bytes, mut pieces) = (vec![0; packet.bytes.len()], packet.bytes);
    if pieces.take_into(&mut bytes).is_some() {
        arrive(function, bus, packet.source, bytes);
    }
}

fn arrive(function: &mut CardFunction, bus: &Bus, source: u16, bytes: Vec<u8>) {
    if let Some(faults) = function.faults.get() {
        faults.arrive(source, bytes, SystemClock.now());
    }
    note(function);
    deliver_due(function, bus);
}

/// Passes packets that are due to the card, while it takes them. Returns whether there was one.
fn deliver_due(function: &mut CardFunction, bus: &Bus) -> bool {
    let now = SystemClock.now();
    let mut has_delivered = false;
    while function.card.takes_packets() && !function.faults.is(State::Stuck) {
        let next = function.faults.get().and_then(|faults| faults.next_packet(now));
        let Some(mut packet) = next else { break };
        let bytes = VolatileSlice::from(&mut packet.bytes[..]);
        function.deliver(bus, &Packet { source: packet.source, bytes: bytes.into() });
        has_delivered = true;
    }
    has_delivered
}
