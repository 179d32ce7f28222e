//! Two operating systems, and a manually operated fabric between them.

mod arrangements;
mod express;
mod misfortune;
mod names;
mod protocol;
mod questions;

use std::collections::{BTreeMap, VecDeque};

use hamlyn_abi::kernel::wire::UlnWire;
use hamlyn_abi::uapi::*;
use rustix::io::{Errno, Result};

use crate::slots::PLACES;
use crate::{Ports, Sizes, System};

const TIMEOUT: u64 = 8000;
/// Interval between checks of the peers, in milliseconds: `peer.c`.
const TICK: u64 = 250;

/// A message in flight.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    host: u32,
    entry: u32,
    wire: UlnWire,
    data: Vec<u8>,
}

/// A card, simulated by a few tables.
#[derive(Debug, Default)]
struct Card {
    now: u64,
    sent: Vec<Sent>,
    arrived: VecDeque<(u32, u32)>,
    /// Content of the locked entries.
    places: BTreeMap<(u32, u32), (UlnWire, Vec<u8>)>,
    /// Number of allocations that still succeed, if it is limited.
    memory: Option<u32>,
    /// Messages of the card's own kind: source, words, bytes.
    said: Vec<(u32, [u32; 3], Vec<u8>)>,
    /// Hosts with which something is arranged, and hosts that were reported lost.
    arranged: Vec<u32>,
    lost: Vec<u32>,
    /// Areas and views that were withdrawn from their processes.
    withdrawn: Vec<u32>,
}

impl Ports for Card {
    fn now(&self) -> u64 {
        self.now
    }

    fn allocates(&mut self) -> bool {
        let left = self.memory.is_none_or(|left| left > 0);
        self.memory = self.memory.map(|left| left.saturating_sub(1));
        left
    }

    fn post(&mut self, host: u32, entry: u32, wire: &UlnWire, data: &[u8]) -> bool {
        self.sent.push(Sent { host, entry, wire: *wire, data: data.to_vec() });
        true
    }

    fn take(&mut self) -> Option<(u32, u32)> {
        self.arrived.pop_front()
    }

    fn more(&mut self) -> bool {
        !self.arrived.is_empty()
    }

    fn read(&mut self, host: u32, entry: u32, place: &mut [u8]) -> UlnWire {
        let (wire, data) = &self.places[&(host, entry)];
        place[..data.len()].copy_from_slice(data);
        *wire
    }

    fn reopen(&mut self, host: u32, entry: u32) {
        self.places.remove(&(host, entry));
    }

    fn message(&mut self, host: u32, wire: &UlnWire, data: &[u8]) {
        self.said.push((host, [wire.from, wire.to, wire.reason], data.to_vec()));
    }

    fn lost(&mut self, host: u32) {
        self.arranged.retain(|other| *other != host);
        self.lost.push(host);
    }

    fn withdraw(&mut self, number: u32) {
        self.withdrawn.push(number);
    }

    fn depends(&mut self, host: u32) -> bool {
        self.arranged.contains(&host)
    }
}

/// A host: its operating system and its card.
#[derive(Debug)]
struct Side {
    system: System,
    card: Card,
}

impl Side {
    fn new(origin: u32, now: u64) -> Self {
        let card = Card { now, ..Card::default() };
        let mut side = Self { system: System::new(origin, TIMEOUT as u32), card };
        side.open();
        side.link_is(Some(0), 1);
        side
    }

    fn open(&mut self) {
        self.system.open(&mut self.card);
        self.work();
    }

    fn stop(&mut self) {
        self.system.stop(&mut self.card);
    }

    fn lost(&mut self, reason: u32) {
        self.system.lost(&mut self.card, reason);
    }

    fn link_is(&mut self, id: Option<u32>, changes: u32) {
        self.system.link_is(&mut self.card, id, changes);
    }

    fn time_is(&mut self, now: u64) {
        self.card.now = now;
        self.work();
    }

    /// Runs all work that is due.
    fn work(&mut self) {
        while self.system.work(&mut self.card) {}
    }

    /// Delivers a message, unless the entry still holds an earlier one.
    fn arrived(&mut self, from: u32, entry: u32, wire: UlnWire, data: Vec<u8>) {
        if self.card.places.contains_key(&(from, entry)) {
            return;
        }
        self.card.places.insert((from, entry), (wire, data));
        self.card.arrived.push_back((from, entry));
        self.system.arrived(&mut self.card);
        self.work();
    }

    fn say(&mut self, host: u32, words: [u32; 3], data: &[u8]) -> Result<()> {
        let [from, to, reason] = words;
        let wire = UlnWire { from, to, reason, ..UlnWire::default() };
        self.system.say(&mut self.card, host, &wire, data)
    }

    /// Arranges something with a host.
    fn arrange(&mut self, host: u32) {
        self.system.watch(&mut self.card, host);
        self.card.arranged.push(host);
    }

    fn listen(&mut self, name: &[u8], backlog: u32) -> Result<u32> {
        self.system.listen(&mut self.card, name, backlog)
    }

    fn unlisten(&mut self, listener: u32) {
        self.system.unlisten(&mut self.card, listener);
    }

    fn claim(&mut self, listener: u32) -> Result<Option<u32>> {
        self.system.claim(&mut self.card, listener)
    }

    fn request(&mut self, host: u32, name: &[u8], private: &[u8]) -> Result<u32> {
        self.system.request(&mut self.card, host, name, private)
    }

    fn ask(&mut self, host: u32, name: &[u8]) -> Result<u32> {
        self.system.ask(&mut self.card, host, name)
    }

    fn answer(&mut self, number: u32, accept: bool, private: &[u8]) -> Result<()> {
        self.system.answer(&mut self.card, number, accept, private)
    }

    fn close(&mut self, number: u32, private: &[u8]) -> Result<()> {
        self.system.close(&mut self.card, number, private)
    }

    fn release(&mut self, number: u32) {
        self.system.release(&mut self.card, number);
    }

    fn leave(&mut self) {
        self.system.leave(&mut self.card);
    }

    /// Returns state, reason, host and private data of a connection.
    fn state(&self, number: u32) -> (u32, u32, u32, Vec<u8>) {
        let state = self.system.describe(number);
        (state.state, state.reason, state.host, state.data[..state.private_length as usize].to_vec())
    }
}

/// Hosts 0 and 1.
#[derive(Debug)]
struct Two {
    sides: [Side; 2],
    /// Messages in flight: source and message.
    flying: Vec<(usize, Sent)>,
    now: u64,
}

impl Two {
    fn new() -> Self {
        Self { sides: [1, 3].map(|origin| Side::new(origin, 0)), flying: Vec::new(), now: 0 }
    }

    fn collect(&mut self) {
        for (from, side) in self.sides.iter_mut().enumerate() {
            self.flying.extend(side.card.sent.drain(..).map(|sent| (from, sent)));
        }
    }

    /// Delivers one message, if the destination exists.
    fn deliver(&mut self, (from, sent): (usize, Sent)) {
        let Some(to) = self.sides.get_mut(sent.host as usize) else { return };
        to.arrived(from as u32, sent.entry, sent.wire, sent.data);
    }

    /// Delivers all messages, until there are none.
    fn carry(&mut self) {
        self.collect();
        while !self.flying.is_empty() {
            let message = self.flying.remove(0);
            self.deliver(message);
            self.collect();
        }
    }

    /// Advances the time. Messages are delivered if `arrives` is true, and lost otherwise.
    fn pass(&mut self, milliseconds: u64, arrives: bool) {
        for _ in 0..milliseconds / 50 {
            self.now += 50;
            self.sides.iter_mut().for_each(|side| side.time_is(self.now));
            if arrives {
                self.carry();
            } else {
                self.collect();
                self.flying.clear();
            }
        }
    }

    /// Connects host 0 to host 1, and returns the connection's numbers at both.
    fn connect(&mut self) -> [u32; 2] {
        let listener = self.sides[1].listen(b"name", 4).unwrap();
        let asked = self.sides[0].request(1, b"name", b"hello").unwrap();
        self.carry();
        let taken = self.sides[1].claim(listener).unwrap().unwrap();
        assert_eq!(self.sides[1].state(taken), (ULN_CONNECTION_REQUESTED, 0, 0, b"hello".to_vec()));
        self.sides[1].answer(taken, true, b"welcome").unwrap();
        self.sides[1].unlisten(listener);
        self.carry();
        assert_eq!(self.sides[0].state(asked), (ULN_CONNECTION_ESTABLISHED, 0, 1, b"welcome".to_vec()));
        [asked, taken]
    }

    fn reason(&self, host: usize, number: u32) -> u32 {
        self.sides[host].state(number).1
    }

    /// Checks that both hosts have empty tables, and that no operation was done that a kernel does
    /// not allow.
    fn check_baseline(&self) {
        for side in &self.sides {
            assert_eq!((side.system.sizes(), side.system.complaint()), (Sizes::default(), None));
        }
    }
}
