//! What goes wrong by rule, between a card and its machine and link.

use std::cell::RefCell;
use std::mem::offset_of;
use std::time::Duration;

use hamlyn_abi::family::command::{
    ULN_REG_COMMAND_GO, ULN_REG_COMMAND_PAGE, ULN_REG_COMMAND_STATUS, UlnCommand,
};
use hamlyn_bus::Bus;
use hamlyn_card::card::Reading;
use hamlyn_card::ports::{Clock, Dma, Packet, VolatileSlice, read_value};
use hamlyn_faults::{Command, Faults, RuleError, Rules, State, Write};
use hamlyn_trace::contract::Contract;
use hamlyn_trace::record::Kind;
use zerocopy::IntoBytes;

use super::{CardFunction, REGISTERS};
use crate::clock::SystemClock;
use crate::ports::BusPorts;
use crate::trace::record;
use crate::uplink::source_of;

impl CardFunction {
    /// Parses rules for this card.
    pub(in super::super) fn rules(&self, text: &str) -> Result<Rules, RuleError> {
        Rules::parse(text, &Contract::of(self.model()))
    }

    /// Starts rules, which replace the earlier ones. No rules end all faults.
    pub(in super::super) fn start_faults(&mut self, rules: Rules, seed: u64) {
        let faults = self.faults.get_or_insert_with(|| Box::new(RefCell::new(Faults::none())));
        faults.get_mut().start(rules, seed, SystemClock.now());
    }

    /// Returns the card's faults, while there are rules.
    pub(in super::super) fn faults(&mut self) -> Option<&mut Faults> {
        self.faults.as_deref_mut().map(RefCell::get_mut)
    }

    pub(super) fn is(&self, state: State) -> bool {
        self.faults.as_deref().is_some_and(|faults| faults.borrow().is(state))
    }

    /// Does what is due.
    pub(super) fn tick_faults(&mut self, bus: &Bus) {
        let now = SystemClock.now();
        let Some(faults) = self.faults() else { return };
        let due = faults.tick(now);
        while let Some(vector) = self.faults().and_then(|faults| faults.due_interrupt(now)) {
            if let Err(error) = bus.interrupts.interrupt(vector) {
                tracing::debug!("{error}");
            }
        }
        self.clock.jump(due.jump);
        if due.reset {
            self.with_ports(bus, |card, ports, _| card.reset(ports));
        }
        if due.link_changed {
            self.link_changed(bus);
        }
        self.deliver_due(bus);
        self.note_faults();
        if self.faults().is_some_and(|faults| faults.is_over()) {
            self.faults = None;
        }
    }

    /// Returns the time of the next tick for faults, in the host's time.
    pub(super) fn next_fault(&self) -> Option<Duration> {
        self.faults.as_deref()?.borrow().alarm(self.card.takes_packets() && !self.is(State::Stuck))
    }

    /// Records the faults since the last call.
    fn note_faults(&mut self) {
        for rule in self.faults().map(Faults::take_notes).unwrap_or_default() {
            tracing::debug!("fault: {rule}");
            self.note(|tap| tap.text(record(Kind::Fault, 0, 0), &rule));
        }
    }

    /// Decides how long an access waits that has come to a function.
    pub(super) fn access_has_come(&mut self, function: usize) {
        if let Some(faults) = self.faults() {
            faults.access(function, SystemClock.now());
            self.note_faults();
        }
    }

    /// Whether the access that has come to a function waits longer.
    pub(super) fn holds(&self, function: usize) -> bool {
        let faults = self.faults.as_deref();
        faults.is_some_and(|faults| faults.borrow().holds(function, SystemClock.now()))
    }

    /// Ends the wait of the access at a function.
    pub(super) fn let_go(&mut self, function: usize) {
        if let Some(faults) = self.faults() {
            faults.release(function);
        }
    }

    /// Returns what the machine reads instead of the card's answer.
    pub(super) fn faulty_reading(&mut self, bar: u8, offset: u64, reading: Reading) -> Reading {
        let (Some(faults), Reading::Now(value)) = (self.faults(), reading) else { return reading };
        let is_status = bar == REGISTERS as u8 && offset == u64::from(ULN_REG_COMMAND_STATUS);
        let status = faults.status().filter(|_| is_status);
        let reading = Reading::Now(faults.read(bar, offset, status.map_or(value, u64::from)));
        self.note_faults();
        reading
    }

    /// Makes a write as the rules say. Returns `false` if there are none.
    pub(super) fn write_faulty(&mut self, bus: &Bus, bar: u8, offset: u64, width: u8, value: u64) -> bool {
        let Some(faults) = self.faults() else { return false };
        let Write::Times(mut times) = faults.write(bar, offset);
        let is_command = bar == REGISTERS as u8 && offset == u64::from(ULN_REG_COMMAND_GO);
        let mut status = None;
        if is_command && times > 0 && faults.has_commands() {
            (times, status) = self.command(bus);
        }
        for _ in 0..times {
            self.with_ports(bus, |card, ports, _| card.register_write(ports, bar, offset, width, value));
        }
        if let Some(status) = status {
            self.answer_command(bus, status);
        }
        self.note_faults();
        true
    }

    /// Decides about the command in the page: how often it is carried out, and the status that it is
    /// answered with instead of the card's.
    fn command(&mut self, bus: &Bus) -> (u32, Option<u32>) {
        let head = read_value::<UlnCommand>(&BusPorts(bus), self.command_page(bus));
        // The card says by itself that it cannot reach the page.
        let Ok(head) = head else { return (1, None) };
        match self.faults().map_or(Command::Times(1), |faults| faults.command(head.opcode)) {
            Command::Times(times) => (times, None),
            Command::Refuse(status) => (0, Some(status)),
            Command::Answer(status) => (1, Some(status)),
        }
    }

    fn answer_command(&mut self, bus: &Bus, mut status: u32) {
        let address = self.command_page(bus) + offset_of!(UlnCommand, status) as u64;
        if let Err(error) = BusPorts(bus).write(address, VolatileSlice::from(status.as_mut_bytes())) {
            tracing::debug!("the status of a command: {error}");
        }
    }

    fn command_page(&mut self, bus: &Bus) -> u64 {
        let (bar, offset) = (REGISTERS as u8, ULN_REG_COMMAND_PAGE.into());
        let page = self.with_ports(bus, |card, ports, _| card.register_read(ports, bar, offset, 8));
        page.now().unwrap_or_default()
    }

    /// Whether packets stay in the link's ring for now.
    pub(super) fn holds_packets(&self) -> bool {
        let Some(faults) = self.faults.as_deref() else { return false };
        let faults = faults.borrow();
        faults.is(State::Stuck) || faults.is(State::Down) || faults.is_full()
    }

    /// Whether packets pass through the rules.
    pub(super) fn faults_take_packets(&self) -> bool {
        self.faults.as_deref().is_some_and(|faults| faults.borrow().takes_packets())
    }

    /// Takes the next packet of the link through the rules, or delivers one that is due.
    pub(super) fn receive_faulty(&mut self, bus: &Bus) -> bool {
        if self.deliver_due(bus) {
            return true;
        }
        let protocol = self.uplink.protocol();
        let Some(arrived) = self.uplink.peek() else { return false };
        let packet = source_of(&arrived, protocol).map(|source| {
            let mut bytes = vec![0; arrived.payload.len()];
            arrived.payload.copy_to(&mut bytes[..]);
            (source, bytes)
        });
        self.uplink.consume();
        if let Some((source, bytes)) = packet {
            self.arrive(bus, source, bytes);
        }
        true
    }

    /// Takes a neighbour's packet through the rules.
    pub(super) fn arrive_faulty(&mut self, bus: &Bus, packet: &Packet<'_>) {
        let mut bytes = vec![0; packet.bytes.len()];
        let mut pieces = packet.bytes;
        if pieces.take_into(&mut bytes).is_some() {
            self.arrive(bus, packet.source, bytes);
        }
    }

    fn arrive(&mut self, bus: &Bus, source: u16, bytes: Vec<u8>) {
        if let Some(faults) = self.faults() {
            faults.arrive(source, bytes, SystemClock.now());
        }
        self.note_faults();
        self.deliver_due(bus);
    }

    /// Passes packets that are due to the card, while it takes them. Returns whether there was one.
    fn deliver_due(&mut self, bus: &Bus) -> bool {
        let now = SystemClock.now();
        let mut has_delivered = false;
        while self.card.takes_packets() && !self.is(State::Stuck) {
            let next = self.faults().and_then(|faults| faults.next_packet(now));
            let Some(mut packet) = next else { break };
            let bytes = VolatileSlice::from(&mut packet.bytes[..]);
            self.deliver(bus, &Packet { source: packet.source, bytes: bytes.into() });
            has_delivered = true;
        }
        has_delivered
    }
}
