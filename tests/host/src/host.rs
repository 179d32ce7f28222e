//! A host with its card, and the operations of its driver and of the switch.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;

use hamlyn_card::card::{BarKind, Card, Place, Progress};
use hamlyn_card::ports::{Packet, Pieces, Ports, VolatileSlice};
use zerocopy::{Immutable, IntoBytes};

use crate::driver::{Commands, Refusal};
use crate::lines::{Lines, SetClock, Wire};
use crate::memory::Memory;
use crate::window::Pages;

/// Bytes in a page.
const PAGE: u64 = 4096;
/// Address of the command page. Free memory starts right behind it.
const COMMAND_PAGE: u64 = PAGE;
/// Number of ports of the switch.
const PORTS: u16 = 64;

/// A host in memory: a card with everything it reaches. Its driver has already enabled the card.
#[derive(Debug)]
pub struct Host<C> {
    /// Its number in the fabric.
    pub id: u16,
    /// Its card.
    pub card: C,
    /// Its memory.
    pub memory: Memory,
    /// The mapped BAR of its card.
    pub window: Pages,
    /// Interrupts that its card raised.
    pub interrupts: Lines,
    /// Its card's clock.
    pub clock: SetClock,
    /// Packets that its card sent.
    pub wire: Wire,
    /// Address at which free memory starts.
    free: Cell<u64>,
}

/// Returns the number of used bytes of a card's mapped BAR, or 0 if it has no such BAR.
pub fn window_bytes(card: &impl Card) -> usize {
    let used = card.identity().bars.into_iter().filter_map(|bar| match bar.kind {
        BarKind::Window { used } => Some(used as usize),
        BarKind::Registers => None,
    });
    used.max().unwrap_or_default()
}

impl<C: Card> Host<C> {
    /// Creates a host with number `id`, whose card has a link. Fails if the system is out of
    /// memory.
    pub fn new(id: u16, card: C) -> io::Result<Self> {
        // A region of zero bytes cannot be mapped. A card without a mapped BAR gets a page that it
        // never accesses.
        let window = Pages::new(window_bytes(&card).max(PAGE as usize))?;
        Ok(Self::made_of(id, card, Memory::new()?, window))
    }

    /// Like [`Host::new`], but takes memory and a window that other processes may have mapped.
    pub fn made_of(id: u16, card: C, memory: Memory, window: Pages) -> Self {
        let mut host = Self {
            id,
            card,
            memory,
            window,
            interrupts: Lines::default(),
            clock: SetClock::default(),
            wire: Wire::default(),
            free: Cell::new(COMMAND_PAGE + PAGE),
        };
        host.with_card(|card, ports, _| card.link_changed(ports, Some(Place { host: id, ports: PORTS })));
        host.interrupts.0.borrow_mut().clear();
        let Ok(()) = host.enable();
        host
    }

    /// Calls a method of the card.
    pub fn with_card<T>(&mut self, verb: impl FnOnce(&mut C, &Ports<'_>, &mut Wire) -> T) -> T {
        let Self { card, memory, window, interrupts, clock, wire, .. } = self;
        verb(card, &Ports { dma: memory, windows: window, interrupt: interrupts, clock }, wire)
    }

    /// Stores to a register of BAR 0.
    pub fn write_register(&mut self, register: u32, width: u8, value: u64) {
        self.with_card(|card, ports, _| card.register_write(ports, 0, register.into(), width, value));
    }

    /// Runs a command and returns the card's answer.
    pub fn run(
        &mut self,
        opcode: u32,
        index: u32,
        body: &(impl IntoBytes + Immutable),
    ) -> Result<(), Refusal> {
        let Ok(done) = Commands::command(self, opcode, index, body);
        done
    }

    /// Allocates `count` contiguous pages and returns the address of the first.
    pub fn pages(&self, count: u64) -> u64 {
        self.free.replace(self.free.get() + count * PAGE)
    }

    /// Lets the card send a packet, if it can.
    pub fn transmit(&mut self) -> Progress {
        self.with_card(|card, ports, wire| card.transmit(ports, wire))
    }

    /// Delivers a packet, given in pieces, to the card.
    pub fn deliver(&mut self, source: u16, packet: &[VolatileSlice<'_>]) {
        let arrived = Packet { source, bytes: Pieces::new(packet) };
        self.with_card(|card, ports, _| card.packet_arrived(ports, &arrived));
    }

    /// Returns the value of the card's counter `name`, or `None` if the card has no such counter.
    pub fn counted(&self, name: &str) -> Option<u64> {
        self.card.counters().into_iter().find(|(known, _)| *known == name).map(|(_, count)| count)
    }
}

impl<C: Card> Commands for Host<C> {
    type Error = Infallible;

    fn command_page(&self) -> u64 {
        COMMAND_PAGE
    }

    fn put(&self, address: u64, bytes: &[u8]) {
        self.memory.at(address, bytes.len()).expect("bytes of the host's memory").copy_from(bytes);
    }

    fn get(&self, address: u64, into: &mut [u8]) {
        self.memory.at(address, into.len()).expect("bytes of the host's memory").copy_to(into);
    }

    fn store(&mut self, register: u32, width: u8, value: u64) -> Result<(), Infallible> {
        self.write_register(register, width, value);
        Ok(())
    }
}
