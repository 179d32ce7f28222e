//! Hosts in memory with a DART card each. Packets arrive at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hamlyn::dart::Card;
use hamlyn_abi::dart::command::{DART_COMMAND_BREAK, DartBreak};
use hamlyn_abi::dart::connection::DART_BROKEN_GONE;
use hamlyn_abi::family::area::UlnArea;
use hamlyn_card::card::{Card as _, Progress};
use hamlyn_card::ports::VolatileSlice;
use hamlyn_card_dart::{DartCard, Options, Policy};
use hamlyn_test_host::{Commands, MEMORY_BYTES, Memory, Pages, list_pages, shared_file};

use crate::attachment::Local;

const PAGE: u64 = 4096;
const OPTIONS: Options = Options {
    connections: 128,
    endpoints: 128,
    registers: 256,
    program: 32,
    queues: 128,
    tlb: 4,
    policy: Policy::LeastRecentlyUsed,
    window: 2048,
    handshake_ms: 0,
};

pub(crate) struct Net(Mutex<Vec<Host>>);

/// A host: a card, its memory, which programs map, and the state of its driver.
pub(crate) struct Host {
    pub(crate) host: hamlyn_test_host::Host<DartCard>,
    pub(crate) memory: File,
    /// The last number given to an object; all kinds share the counter.
    pub(crate) numbers: u32,
    /// First register and first entry of each bank, and those of the next bank.
    pub(crate) banks: BTreeMap<u32, (u32, u32)>,
    pub(crate) next: (u32, u32),
    /// The other end of each connection.
    pub(crate) peers: BTreeMap<u32, (u32, u32)>,
    /// Address and number of records of each queue.
    pub(crate) queues: BTreeMap<u32, (u64, u32)>,
    /// Address of each connection's state, and the other host.
    pub(crate) states: BTreeMap<u32, (u64, u32)>,
}

/// Opens one card for each of `hosts` hosts.
pub(crate) fn cards(hosts: u16) -> Vec<Card> {
    let net = Arc::new(Net(Mutex::new((0..hosts).map(Host::new).collect())));
    (0..hosts).map(|host| Card::attached(Arc::new(Local::new(&net, host.into())))).collect()
}

impl Net {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Host>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` at a host, and then delivers everything that it causes on any host.
    pub(crate) fn at<T>(&self, host: u32, act: impl FnOnce(&mut Host) -> T) -> T {
        let mut hosts = self.lock();
        let done = act(&mut hosts[host as usize]);
        carry(&mut hosts);
        done
    }

    /// Advances the time by a millisecond.
    pub(crate) fn tick(&self) {
        let mut hosts = self.lock();
        for Host { host, .. } in hosts.iter_mut() {
            host.clock.0.set(host.clock.0.get() + Duration::from_millis(1));
            host.with_card(|card, ports, _| card.tick(ports));
        }
        carry(&mut hosts);
    }

    /// Notifies the other end of a closed connection, as drivers notify each other.
    pub(crate) fn part(&self, host: u32, number: u32) {
        let mut hosts = self.lock();
        let Some((other, peer)) = hosts[host as usize].peers.remove(&number) else { return };
        let other = &mut hosts[other as usize];
        if other.peers.get(&peer) == Some(&(host, number)) {
            let body = DartBreak { why: DART_BROKEN_GONE, reserved: 0 };
            other.host.run(DART_COMMAND_BREAK, peer, &body).unwrap();
        }
    }
}

/// Delivers packets until no card has one to send.
fn carry(hosts: &mut [Host]) {
    loop {
        let mut sent = Vec::new();
        for (from, Host { host, .. }) in hosts.iter_mut().enumerate() {
            while host.card.alarm() == Some(Duration::ZERO) {
                host.with_card(|card, ports, _| card.tick(ports));
            }
            while host.transmit() == Progress::Worked {}
            sent.extend(host.wire.sent.drain(..).map(|(to, bytes)| (from as u16, to, bytes)));
        }
        if sent.is_empty() {
            return;
        }
        for (from, to, mut bytes) in sent {
            hosts[usize::from(to)].host.deliver(from, &[VolatileSlice::from(&mut bytes[..])]);
        }
    }
}

impl Host {
    fn new(number: u16) -> Self {
        let memory = shared_file(MEMORY_BYTES).unwrap();
        let window = Pages::new(PAGE as usize).unwrap();
        let card = DartCard::new(OPTIONS);
        let host = hamlyn_test_host::Host::made_of(number, card, Memory::of(&memory).unwrap(), window);
        Self {
            host,
            memory,
            numbers: 0,
            banks: BTreeMap::new(),
            next: (0, 0),
            peers: BTreeMap::new(),
            queues: BTreeMap::new(),
            states: BTreeMap::new(),
        }
    }

    /// Returns the card's description of memory whose pages are consecutive.
    pub(crate) fn area(&self, address: u64, length: u64) -> UlnArea {
        let host = &self.host;
        list_pages(length, 0, || host.pages(1), |page| address + page * PAGE, |at, bytes| host.put(at, bytes))
    }

    /// Allocates memory and returns its address.
    pub(crate) fn fresh(&self, length: u64) -> u64 {
        let start = self.host.pages(length.div_ceil(PAGE));
        assert!(start + length <= MEMORY_BYTES as u64, "the host has no more memory");
        start
    }

    pub(crate) fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn word(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        self.host.get(address, &mut bytes);
        u32::from_le_bytes(bytes)
    }
}
