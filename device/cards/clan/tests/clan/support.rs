//! Hosts in memory with a CLAN card each, and a wire between them.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use hamlyn_abi::clan::aperture::{CLAN_APERTURE_GROUP, CLAN_APERTURE_WRITE};
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::fifo::*;
use hamlyn_abi::clan::registers::*;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_abi::family::area::UlnArea;
use hamlyn_card::card::{Card, Progress, Reading};
use hamlyn_card::ports::{Packet, Ports, VolatileSlice};
use hamlyn_card_clan::{ClanCard, Options};
use hamlyn_test_host::{Commands, Refusal, Wire, list_pages};
use zerocopy::{FromZeros, IntoBytes};

pub(crate) const PAGE: u64 = 4096;
pub(crate) const OWNER: u32 = 77;
pub(crate) const KEY: u64 = 0x1234_5678_9abc_def0;
pub(crate) const REQUESTS: u32 = 16;
/// Actions of a Tripwire: it sets a bit, counts and makes an event.
pub(crate) const ACTIONS: u32 = CLAN_TRIPWIRE_BIT | CLAN_TRIPWIRE_COUNT | CLAN_TRIPWIRE_EVENT;

pub(crate) const OPTIONS: Options = Options {
    apertures: 16,
    window_pages: 64,
    endpoints: 32,
    tripwires: 64,
    event_queues: 8,
    burst: 256,
    credits: 64,
    join: CLAN_JOIN_LEAVING | CLAN_JOIN_ARRIVING,
    read_timeout_ms: 100,
    handshake_ms: 0,
};

/// Destination of announcements, and their kind of packet.
pub(crate) const ALL_CARDS: (u16, u8) = (0xff00, 7);

pub(crate) struct Host(hamlyn_test_host::Host<ClanCard>);

impl Deref for Host {
    type Target = hamlyn_test_host::Host<ClanCard>;

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
        Self::begun(number, options).0
    }

    /// Also returns the packet by which the card greets the other cards.
    pub(crate) fn begun(number: u16, options: Options) -> (Self, Vec<u8>) {
        let mut host = Self(hamlyn_test_host::Host::new(number, ClanCard::new(options)).unwrap());
        let mut sent = host.sent();
        assert_eq!(sent.iter().map(|(to, packet)| (*to, packet[0])).collect::<Vec<_>>(), [ALL_CARDS]);
        (host, sent.remove(0).1)
    }

    pub(crate) fn with<T>(&mut self, verb: impl FnOnce(&mut ClanCard, &Ports<'_>, &mut Wire) -> T) -> T {
        self.with_card(verb)
    }

    /// Returns an area of fresh pages, and its address.
    pub(crate) fn area(&self, length: u64, first: u32) -> (UlnArea, u64) {
        let start = self.pages((length + u64::from(first)).div_ceil(PAGE));
        let page = |index| start + index * PAGE;
        (
            list_pages(length, first, || self.pages(1), page, |at, bytes| self.put(at, bytes)),
            start + u64::from(first),
        )
    }

    pub(crate) fn try_aperture(&mut self, index: u32, body: &ClanOpenAperture) -> Result<(), Refusal> {
        self.run(CLAN_COMMAND_OPEN_APERTURE, index, body)
    }

    /// Opens an aperture of [`OWNER`]. Returns the address of its memory.
    pub(crate) fn aperture(&mut self, index: u32, length: u64, flags: u32) -> u64 {
        let (area, start) = self.area(length, 0);
        let body = ClanOpenAperture { area, key: KEY, owner: OWNER, flags, ..Default::default() };
        self.try_aperture(index, &body).unwrap();
        start
    }

    /// Opens an endpoint with 8 Tripwires, whose events go to a queue. Returns the address of its
    /// memory.
    pub(crate) fn endpoint(&mut self, index: u32, events: u32) -> u64 {
        self.endpoint_with(index, events, 8)
    }

    /// Opens an endpoint without Tripwires and events. Returns the address of its memory.
    pub(crate) fn plain_endpoint(&mut self, index: u32) -> u64 {
        self.endpoint_with(index, CLAN_NO_EVENTS, 0)
    }

    fn endpoint_with(&mut self, index: u32, events: u32, tripwires: u32) -> u64 {
        let length = u64::from(CLAN_STATE_SIZE + REQUESTS * CLAN_REQUEST_SIZE);
        let (memory, start) = self.area(length, 0);
        let body = ClanOpenEndpoint {
            memory,
            owner: OWNER,
            tripwires,
            requests: REQUESTS,
            events,
            ..Default::default()
        };
        self.run(CLAN_COMMAND_OPEN_ENDPOINT, index, &body).unwrap();
        start
    }

    /// Opens an event queue of 16 records. Returns the address of its memory.
    pub(crate) fn events(&mut self, index: u32) -> u64 {
        let (memory, start) = self.area(u64::from(CLAN_EVENTS_HEAD + 16 * CLAN_EVENT_SIZE), 0);
        let body = ClanOpenEvents { memory, owner: OWNER, records: 16 };
        self.run(CLAN_COMMAND_OPEN_EVENTS, index, &body).unwrap();
        start
    }

    /// Opens the FIFO. Returns its address.
    pub(crate) fn fifo(&mut self) -> u64 {
        let (area, start) = self.area(u64::from(128 * CLAN_FIFO_SIZE), 0);
        self.run(CLAN_COMMAND_OPEN_FIFO, 0, &ClanOpenFifo { area, records: 128, reserved: 0 }).unwrap();
        start
    }

    /// Opens a window onto an aperture.
    pub(crate) fn window(&mut self, first: u32, (host, aperture): (u32, u32), length: u64, endpoint: u32) {
        let body = ClanOpenWindow { key: KEY, length, host, aperture, endpoint, ..Default::default() };
        self.run(CLAN_COMMAND_OPEN_WINDOW, first, &body).unwrap();
    }

    /// Makes this host a member of a group. Returns the address of the member's memory.
    pub(crate) fn joins_group(&mut self, index: u32, group: u32) -> u64 {
        let (area, start) = self.area(PAGE, 0);
        let flags = CLAN_APERTURE_WRITE | CLAN_APERTURE_GROUP;
        let body = ClanOpenAperture { area, key: KEY, owner: OWNER, flags, group, ..Default::default() };
        self.try_aperture(index, &body).unwrap();
        start
    }

    fn store_bar(&mut self, offset: u64, width: u8, value: u64) {
        self.with(|card, ports, _| card.register_write(ports, 2, offset, width, value));
    }

    /// Stores to a byte of the window pages.
    pub(crate) fn store(&mut self, byte: u64, width: u8, value: u64) {
        self.store_bar(u64::from(OPTIONS.endpoints) * PAGE + byte, width, value);
    }

    /// Loads from a byte of the window pages.
    pub(crate) fn load(&mut self, byte: u64, width: u8) -> Reading {
        let offset = u64::from(OPTIONS.endpoints) * PAGE + byte;
        self.with(|card, ports, _| card.register_read(ports, 2, offset, width))
    }

    /// Stores to an endpoint's page.
    pub(crate) fn tell(&mut self, endpoint: u32, offset: u32, width: u8, value: u64) {
        self.store_bar(u64::from(endpoint) * PAGE + u64::from(offset), width, value);
    }

    /// Programs a Tripwire. Returns the card's answer.
    pub(crate) fn set(
        &mut self,
        (endpoint, number): (u32, u32),
        (offset, length): (u64, u64),
        target: u64,
        flags: u32,
        memory: u64,
    ) -> u32 {
        let place = number * CLAN_TRIPWIRE_STRIDE;
        self.tell(endpoint, place + CLAN_TRIPWIRE_OFFSET, 8, offset);
        self.tell(endpoint, place + CLAN_TRIPWIRE_LENGTH, 8, length);
        self.tell(endpoint, place + CLAN_TRIPWIRE_TARGET, 8, target);
        self.tell(endpoint, place + CLAN_TRIPWIRE_CONTROL, 4, u64::from(flags | 0xabcd_0000));
        let answer = self.word(memory + u64::from(CLAN_STATE_TRIPWIRES + number * 8 + 4));
        assert_eq!(answer >> 16, 0xabcd);
        answer & 0xffff
    }

    /// Returns how often a Tripwire has fired.
    pub(crate) fn fired(&self, memory: u64, number: u32) -> u32 {
        self.word(memory + u64::from(CLAN_STATE_TRIPWIRES + number * 8))
    }

    /// Clears the set bits of an endpoint, and returns them.
    pub(crate) fn take_bits(&self, memory: u64) -> u64 {
        let bits = self.bits(memory);
        self.put(memory + u64::from(CLAN_STATE_CLEARED), &self.bytes(memory + u64::from(CLAN_STATE_BITS), 8));
        bits
    }

    /// Returns the bits of an endpoint that are set.
    pub(crate) fn bits(&self, memory: u64) -> u64 {
        let half =
            |at: u32| [0, 4].map(|word| u64::from(self.word(memory + u64::from(at) + word)) << (8 * word));
        let half = |at| half(at).iter().sum::<u64>();
        half(CLAN_STATE_BITS) ^ half(CLAN_STATE_CLEARED)
    }

    /// Puts a request as number `n` into the queue, and rings if the engine does not look there.
    pub(crate) fn request(&mut self, endpoint: u32, memory: u64, n: u32, request: ClanRequest) {
        let place = memory + u64::from(CLAN_STATE_SIZE + n % REQUESTS * CLAN_REQUEST_SIZE);
        self.put(place, request.as_bytes());
        self.put_word(memory + u64::from(CLAN_STATE_PUT), n + 1);
        if self.word(memory + u64::from(CLAN_STATE_IDLE)) == 1 {
            self.tell(endpoint, CLAN_ENDPOINT_GO, 4, 1);
        }
    }

    /// Returns the result of request `n`.
    pub(crate) fn result(&self, memory: u64, n: u32) -> u32 {
        self.word(memory + u64::from(CLAN_STATE_SIZE + n % REQUESTS * CLAN_REQUEST_SIZE) + 28)
    }

    pub(crate) fn done(&self, memory: u64) -> u32 {
        self.word(memory + u64::from(CLAN_STATE_DONE))
    }

    pub(crate) fn faults(&self, memory: u64) -> (u32, u32) {
        let at = |place: u32| self.word(memory + u64::from(place));
        (at(CLAN_STATE_FAULTS), at(CLAN_STATE_FAULT_REASON))
    }

    /// Takes the untaken records of an event queue, and returns them.
    pub(crate) fn take_events(&self, memory: u64) -> Vec<ClanEvent> {
        let mut taken = self.word(memory + u64::from(CLAN_EVENTS_TAKEN));
        let mut events = Vec::new();
        loop {
            let mut event = ClanEvent::new_zeroed();
            self.get(
                memory + u64::from(CLAN_EVENTS_HEAD + taken % 16 * CLAN_EVENT_SIZE),
                event.as_mut_bytes(),
            );
            if event.number != taken + 1 {
                return events;
            }
            taken += 1;
            self.put_word(memory + u64::from(CLAN_EVENTS_TAKEN), taken);
            events.push(event);
        }
    }

    /// Returns the vectors that were raised since the last call.
    pub(crate) fn raised(&mut self) -> Vec<u16> {
        self.interrupts.0.take()
    }

    /// Sends everything that can be sent, and takes it off the wire.
    pub(crate) fn sent(&mut self) -> Vec<(u16, Vec<u8>)> {
        while self.transmit() == Progress::Worked {}
        std::mem::take(&mut self.wire.sent)
    }

    pub(crate) fn arrive(&mut self, source: u16, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        self.with(|card, ports, _| card.packet_arrived(ports, &packet));
    }

    /// Checks that the card has nothing to do.
    pub(crate) fn rest(&mut self) {
        assert!(self.with(|card, ports, _| card.sleep(ports)));
    }

    /// Returns the next load that has got its value.
    pub(crate) fn loaded(&mut self) -> Option<(u64, u64)> {
        self.with(|card, _, _| card.late_reading())
    }

    /// Advances the clock, and lets the card handle its alarms.
    pub(crate) fn wait(&mut self, milliseconds: u64) {
        self.clock.0.set(self.clock.0.get() + Duration::from_millis(milliseconds));
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

    pub(crate) fn word(&self, address: u64) -> u32 {
        u32::from_le_bytes(self.bytes(address, 4).try_into().unwrap())
    }

    pub(crate) fn put_word(&self, address: u64, word: u32) {
        self.put(address, &word.to_le_bytes());
    }

    /// Returns all of the host's memory.
    pub(crate) fn everything(&self) -> Vec<u8> {
        self.bytes(0, (1000 * PAGE) as usize)
    }
}

/// Returns two hosts. The first has a window of one page onto an aperture of the second, and an
/// endpoint. Also returns the addresses of the aperture's and the endpoint's memory.
pub(crate) fn pair(flags: u32) -> (Host, Host, u64, u64) {
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    let aperture = other.aperture(3, PAGE, flags);
    let endpoint = one.endpoint(2, CLAN_NO_EVENTS);
    one.window(5, (1, 3), PAGE, 2);
    (one, other, aperture, endpoint)
}

/// The window of [`pair`].
pub(crate) const WINDOW: u64 = 5 * PAGE;

/// Delivers to `one` another host's announcement that it is a member of a group.
pub(crate) fn announce(one: &mut Host, other: &mut Host) {
    for (to, packet) in other.sent() {
        assert_eq!((to, packet[0]), ALL_CARDS);
        one.arrive(other.id, &packet);
    }
}

/// Carries packets between two hosts until neither has any. Returns the number of packets.
pub(crate) fn exchange(one: &mut Host, other: &mut Host) -> usize {
    let mut carried = 0;
    loop {
        let (there, back) = (one.sent(), other.sent());
        if there.is_empty() && back.is_empty() {
            one.rest();
            other.rest();
            return carried;
        }
        carried += there.len() + back.len();
        for (_, packet) in &there {
            other.arrive(one.id, packet);
        }
        for (_, packet) in &back {
            one.arrive(other.id, packet);
        }
    }
}

/// Returns a request that writes from local aperture 1 to aperture 3 of host 1.
pub(crate) fn write_request(from: u64, to: u64, length: u64) -> ClanRequest {
    ClanRequest {
        opcode: CLAN_DMA_WRITE,
        local_aperture: 1,
        host: 1,
        local_offset: from,
        aperture: 3,
        key: KEY,
        offset: to,
        length,
        ..Default::default()
    }
}

/// Returns a request that reads in the other direction.
pub(crate) fn read_request(to: u64, from: u64, length: u64) -> ClanRequest {
    ClanRequest { opcode: CLAN_DMA_READ, ..write_request(to, from, length) }
}
