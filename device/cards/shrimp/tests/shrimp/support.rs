//! Hosts in memory with a SHRIMP card each, and a wire between them.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use hamlyn_abi::shrimp::arrival::SHRIMP_ARRIVAL_SIZE;
use hamlyn_abi::shrimp::command::*;
use hamlyn_abi::shrimp::entry::*;
use hamlyn_card::card::{Card, Reading, Store};
use hamlyn_card::ports::{Packet, Ports, VolatileSlice};
use hamlyn_card_shrimp::{Options, ShrimpCard};
use hamlyn_test_host::{Commands, Wire, list_pages};

/// Number of pages of a host's memory.
pub(crate) const PAGES: u32 = 2048;
pub(crate) const PAGE: u64 = 4096;
pub(crate) const COLUMNS: u32 = 2;

pub(crate) const OPTIONS: Options =
    Options { pages: PAGES, columns: COLUMNS, fifo: 16384, packet_size: 256, merge_us: 50, handshake_ms: 0 };

pub(crate) struct Host(hamlyn_test_host::Host<ShrimpCard>);

impl Deref for Host {
    type Target = hamlyn_test_host::Host<ShrimpCard>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Host {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Host {
    /// Returns a host with this number, whose card is enabled.
    pub(crate) fn new(number: u16) -> Self {
        Self::with_options(number, OPTIONS)
    }

    pub(crate) fn with_options(number: u16, options: Options) -> Self {
        Self(hamlyn_test_host::Host::new(number, ShrimpCard::new(options)).unwrap())
    }

    pub(crate) fn with<T>(&mut self, verb: impl FnOnce(&mut ShrimpCard, &Ports<'_>, &mut Wire) -> T) -> T {
        self.with_card(verb)
    }

    pub(crate) fn set_entry(&mut self, page: u32, entry: ShrimpEntry) {
        self.run(SHRIMP_COMMAND_SET_ENTRY, page, &entry).unwrap();
    }

    /// Maps a whole page out.
    pub(crate) fn map_out(&mut self, page: u32, node: u32, to: u64, mode: u32) {
        self.set_entry(page, out(4096, [(to, node, mode), (0, 0, 0)]));
    }

    /// Maps a whole page in.
    pub(crate) fn map_in(&mut self, page: u32, node: u32) {
        self.set_entry(page, taken(4096, [(1 << node, 0), (0, 0)]));
    }

    /// Opens an arrival queue of 16 records. Returns its address.
    pub(crate) fn open_arrivals(&mut self) -> u64 {
        let page = || self.pages(1);
        let length = 16 * u64::from(SHRIMP_ARRIVAL_SIZE);
        let queue = list_pages(length, 0, page, |_| page(), |at, bytes| self.put(at, bytes));
        let at = self.pages(0) - PAGE;
        self.run(SHRIMP_COMMAND_OPEN_ARRIVALS, 0, &ShrimpOpenArrivals { queue, records: 16, reserved: 0 })
            .unwrap();
        at
    }

    /// Stores as a processor does, and shows the store to the card.
    pub(crate) fn store_seen(&mut self, address: u64, bytes: &[u8]) {
        self.put(address, bytes);
        let mut value = [0; 16];
        value[..bytes.len()].copy_from_slice(bytes);
        let store = Store::new(address, value, bytes.len() as u8).unwrap();
        self.with(|card, ports, _| card.store_seen(ports, &store));
    }

    /// Returns the vectors that were raised since the last call.
    pub(crate) fn raised(&mut self) -> Vec<u16> {
        self.interrupts.0.take()
    }

    /// Stores to BAR 2.
    pub(crate) fn store_memory(&mut self, offset: u64, width: u8, value: u64) {
        self.with(|card, ports, _| card.register_write(ports, 2, offset, width, value));
    }

    /// Loads from BAR 2.
    pub(crate) fn load_memory(&mut self, offset: u64, width: u8) -> u64 {
        let Reading::Now(value) = self.with(|card, ports, _| card.register_read(ports, 2, offset, width))
        else {
            panic!("no answer")
        };
        value
    }

    pub(crate) fn load_register(&mut self, register: u32) -> u64 {
        let reading = self.with(|card, ports, _| card.register_read(ports, 0, register.into(), 4));
        reading.now().unwrap()
    }

    /// Returns the hosts that are cut off, with a bit for each.
    pub(crate) fn load_cut_off(&mut self) -> u64 {
        let offset = u64::from(hamlyn_abi::shrimp::registers::SHRIMP_REG_CUT_OFF);
        let reading = self.with(|card, ports, _| card.register_read(ports, 0, offset, 8));
        reading.now().unwrap()
    }

    /// Sends everything that can be sent, and takes it off the wire.
    pub(crate) fn sent(&mut self) -> Vec<(u16, Vec<u8>)> {
        while self.transmit().has_worked() {}
        std::mem::take(&mut self.wire.sent)
    }

    /// Sends everything that can be sent. Returns the destination, address and data of each packet.
    pub(crate) fn sent_data(&mut self) -> Vec<(u16, u64, Vec<u8>)> {
        self.sent()
            .into_iter()
            .map(|(to, packet)| (to, address_of(&packet), data_of(&packet).to_vec()))
            .collect()
    }

    pub(crate) fn arrive(&mut self, source: u16, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        self.with(|card, ports, _| card.packet_arrived(ports, &packet));
    }

    /// Advances the clock, and lets the card handle its alarms.
    pub(crate) fn wait(&mut self, microseconds: u64) {
        self.clock.0.set(self.clock.0.get() + Duration::from_micros(microseconds));
        self.with(|card, ports, _| card.tick(ports));
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.counted(name).unwrap()
    }

    pub(crate) fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.get(address, &mut bytes);
        bytes
    }

    pub(crate) fn put_word(&self, address: u64, word: u32) {
        self.put(address, &word.to_le_bytes());
    }

    /// Returns the host's memory.
    pub(crate) fn everything(&self) -> Vec<u8> {
        self.bytes(2 * PAGE, (1000 * PAGE) as usize)
    }
}

/// Returns an entry that maps parts out: page, host and mode of each.
pub(crate) fn out(split_out: u32, parts: [(u64, u32, u32); 2]) -> ShrimpEntry {
    let out = parts.map(|(page, node, mode)| ShrimpOut { page, node, mode });
    ShrimpEntry { split_out, out, ..Default::default() }
}

/// Returns an entry that maps parts in: hosts and flags of each.
pub(crate) fn taken(split_in: u32, parts: [(u64, u32); 2]) -> ShrimpEntry {
    let incoming = parts.map(|(nodes, flags)| ShrimpIn { nodes, flags, reserved: 0 });
    ShrimpEntry { split_in, incoming, ..Default::default() }
}

pub(crate) fn address_of(packet: &[u8]) -> u64 {
    u64::from_le_bytes(packet[8..16].try_into().unwrap())
}

pub(crate) fn data_of(packet: &[u8]) -> &[u8] {
    &packet[16..packet.len() - 4]
}

/// Returns a packet as a card makes it: from host to host, in a mesh of two columns.
pub(crate) fn packet(from: u16, to: u16, address: u64, data: &[u8]) -> Vec<u8> {
    let place = |host: u16| [(host % 2) as u8, (host / 2) as u8];
    let length = (data.len() as u32).to_le_bytes();
    seal([&place(to)[..], &place(from), &length, &address.to_le_bytes(), data].concat())
}

/// Appends the checksum to a packet.
pub(crate) fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Returns two hosts.
pub(crate) fn pair() -> [Host; 2] {
    [0, 1].map(Host::new)
}

/// Carries the packets of one host to the other. Returns their number.
pub(crate) fn carry(from: &mut Host, number: u16, to: &mut Host) -> usize {
    let sent = from.sent();
    for (_, packet) in &sent {
        to.arrive(number, packet);
    }
    sent.len()
}
