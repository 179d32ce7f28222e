//! Hosts in memory with a DART card and a driver each, and a wire between them.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::fifo::*;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::registers::*;
use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::family::command::ULN_COMMAND_BODY;
use hamlyn_card::card::{Card, Place, Progress};
use hamlyn_card::ports::{Packet, Ports, VolatileSlice};
use hamlyn_card_dart::{DartCard, Options, Policy};
use hamlyn_test_host::{Commands, Wire, list_pages};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

pub(crate) const PAGE: u64 = 4096;
/// The address space of all endpoints here, and the address of the first endpoint.
pub(crate) const SPACE: u32 = 7;
pub(crate) const BASE: u64 = 0x7f00_0000_0123 & !3;
/// The key of all connections.
pub(crate) const KEY: u64 = 0x1234_5678_9abc_def0;
const FIFO: u32 = 512;

pub(crate) const OPTIONS: Options = Options {
    connections: 128,
    endpoints: 128,
    registers: 256,
    program: 32,
    queues: 8,
    tlb: 4,
    policy: Policy::LeastRecentlyUsed,
    window: 2048,
    handshake_ms: 0,
};

/// A program's memory: frames by virtual page, and whether they may be written to.
pub(crate) type Pages = BTreeMap<u64, (u64, bool)>;

pub(crate) struct Host {
    host: hamlyn_test_host::Host<DartCard>,
    fifo: u64,
    taken: u32,
    pub(crate) pages: Pages,
    /// Whether the driver answers misses.
    pub(crate) serves: bool,
    /// What the driver has found in the FIFO, except for misses.
    pub(crate) found: Vec<u32>,
}

impl Deref for Host {
    type Target = hamlyn_test_host::Host<DartCard>;

    fn deref(&self) -> &Self::Target {
        &self.host
    }
}

impl DerefMut for Host {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.host
    }
}

/// The parameters of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) endpoint: u32,
    pub(crate) registers: (u32, u32),
    pub(crate) program: (u32, u32),
    pub(crate) queues: [u32; 2],
    pub(crate) flags: u32,
}

pub(crate) const END: End = End {
    endpoint: 0,
    registers: (0, 16),
    program: (0, 0),
    queues: [DART_NO_QUEUE; 2],
    flags: DART_CONNECTION_READ | DART_CONNECTION_WRITE,
};

impl Host {
    /// Returns a host with this number, whose card is enabled.
    pub(crate) fn new(number: u16) -> Self {
        Self::with_options(number, OPTIONS)
    }

    pub(crate) fn with_options(number: u16, options: Options) -> Self {
        let host = hamlyn_test_host::Host::new(number, DartCard::new(options)).unwrap();
        let mut host = Self { host, fifo: 0, taken: 0, pages: Pages::new(), serves: true, found: Vec::new() };
        host.link(Some(Place { host: number, ports: 4 }));
        let (area, start) = host.area(u64::from(FIFO * DART_FIFO_SIZE));
        host.run(DART_COMMAND_OPEN_FIFO, 0, &DartOpenFifo { area, records: FIFO, reserved: 0 }).unwrap();
        host.fifo = start;
        host
    }

    pub(crate) fn with<T>(&mut self, verb: impl FnOnce(&mut DartCard, &Ports<'_>, &mut Wire) -> T) -> T {
        self.host.with_card(verb)
    }

    /// Returns an area of fresh pages, and its address.
    pub(crate) fn area(&self, length: u64) -> (UlnArea, u64) {
        let start = self.host.pages(length.div_ceil(PAGE));
        let page = |index| start + index * PAGE;
        (list_pages(length, 0, || self.host.pages(1), page, |at, bytes| self.put(at, bytes)), start)
    }

    /// Opens an endpoint of `length` bytes of virtual memory from [`BASE`] on, all of which is
    /// there.
    pub(crate) fn endpoint(&mut self, index: u32, length: u64) {
        for page in BASE / PAGE..=(BASE + length - 1) / PAGE {
            let frame = self.host.pages(1);
            self.pages.entry(page).or_insert((frame, true));
        }
        let body = DartOpenEndpoint { base: BASE, length, space: SPACE, ..DartOpenEndpoint::new_zeroed() };
        self.run(DART_COMMAND_OPEN_ENDPOINT, index, &body).unwrap();
    }

    /// Opens a connection to connection `index` of another host. Returns the address of its state.
    pub(crate) fn connection(&mut self, index: u32, host: u32, end: End) -> u64 {
        let state = self.open(index, host, end);
        let connect = DartConnect { key: KEY, peer: index, reserved: 0 };
        self.run(DART_COMMAND_CONNECT, index, &connect).unwrap();
        state
    }

    /// Opens a connection without naming its other end. Returns the address of its state.
    pub(crate) fn open(&mut self, index: u32, host: u32, end: End) -> u64 {
        let (state, start) = self.area(DART_STATE_SIZE.into());
        let body = DartOpenConnection {
            state,
            endpoint: end.endpoint,
            host,
            register_base: end.registers.0,
            register_bound: end.registers.1,
            program_base: end.program.0,
            program_bound: end.program.1,
            events: end.queues[0],
            exceptions: end.queues[1],
            flags: end.flags,
            reserved: 0,
            key: KEY,
        };
        self.run(DART_COMMAND_OPEN_CONNECTION, index, &body).unwrap();
        start
    }

    /// Opens a queue of 16 records. Returns its address.
    pub(crate) fn queue(&mut self, index: u32, flags: u32) -> u64 {
        self.queue_of(16, index, flags)
    }

    /// Opens a queue of `records` records. Returns its address.
    pub(crate) fn queue_of(&mut self, records: u32, index: u32, flags: u32) -> u64 {
        let (memory, start) = self.area(u64::from(DART_QUEUE_HEAD + records * DART_RECORD_SIZE));
        self.run(DART_COMMAND_OPEN_QUEUE, index, &DartOpenQueue { memory, records, flags }).unwrap();
        start
    }

    /// Takes all untaken records of a queue of 16, and returns them.
    pub(crate) fn take_records(&self, queue: u64) -> Vec<DartRecord> {
        self.take_exceptions(queue, 16).into_iter().map(|(record, _)| record).collect()
    }

    /// Takes all untaken records of a queue of `records`, and returns them with the data behind
    /// each.
    pub(crate) fn take_exceptions(&self, queue: u64, records: u32) -> Vec<(DartRecord, Vec<u8>)> {
        let mut taken = self.word(queue + u64::from(DART_QUEUE_TAKEN));
        let place = |n: u32| queue + u64::from(DART_QUEUE_HEAD + n % records * DART_RECORD_SIZE);
        let mut found = Vec::new();
        loop {
            let record = DartRecord::read_from_bytes(&self.bytes(place(taken), 64)).unwrap();
            if record.number != taken + 1 {
                return found;
            }
            let has_parts = record.kind != DART_RECORD_COMPARED && record.kind & DART_RECORD_CUT == 0;
            let parts = if has_parts { DartPart::count(record.length) } else { 0 };
            let behind = taken + 1..taken + 1 + parts;
            let data = behind.flat_map(|n| self.bytes(place(n), DART_PART as usize)).collect();
            taken += 1 + parts;
            self.put(queue + u64::from(DART_QUEUE_TAKEN), &taken.to_le_bytes());
            found.push((record, data));
        }
    }

    pub(crate) fn store_page(&mut self, connection: u32, place: u32, width: u8, value: u64) {
        let offset = u64::from(connection) * PAGE + u64::from(place);
        self.with(|card, ports, _| card.register_write(ports, 2, offset, width, value));
    }

    pub(crate) fn register(&mut self, connection: u32, number: u32) -> u64 {
        let offset = u64::from(connection) * PAGE + u64::from(DART_PAGE_REGISTERS + number * 8);
        self.with(|card, ports, _| card.register_read(ports, 2, offset, 8)).now().unwrap()
    }

    pub(crate) fn set_register(&mut self, connection: u32, number: u32, value: u64) {
        self.store_page(connection, DART_PAGE_REGISTERS + number * 8, 8, value);
    }

    /// Stores a message to the Send Registers.
    pub(crate) fn send(&mut self, connection: u32, control: DartControl, offset: u64, length: u64) {
        let words: [u64; 2] = zerocopy::transmute!(control);
        self.store_page(connection, DART_SEND_CONTROL, 8, words[0]);
        self.store_page(connection, DART_SEND_OPERAND, 8, words[1]);
        self.store_page(connection, DART_SEND_OFFSET, 8, offset);
        self.store_page(connection, DART_SEND_LENGTH, 4, length);
    }

    /// Writes to an endpoint as its process does.
    pub(crate) fn write_virtual(&self, offset: u64, bytes: &[u8]) {
        for (at, byte) in (BASE + offset..).zip(bytes) {
            self.put(self.pages[&(at / PAGE)].0 + at % PAGE, &[*byte]);
        }
    }

    pub(crate) fn read_virtual(&self, offset: u64, length: u64) -> Vec<u8> {
        let place = |at: u64| self.pages[&(at / PAGE)].0 + at % PAGE;
        (BASE + offset..BASE + offset + length).map(|at| self.bytes(place(at), 1)[0]).collect()
    }

    /// Lets the driver look at the FIFO. Returns whether there was anything.
    pub(crate) fn serve(&mut self) -> bool {
        let mut any = false;
        loop {
            let at = self.fifo + u64::from(self.taken % FIFO * DART_FIFO_SIZE);
            if self.word(at + 4) != self.taken + 1 {
                break;
            }
            (any, self.taken) = (true, self.taken + 1);
            match self.word(at) {
                connection if connection >> 30 == DART_FIFO_MISSES => {
                    if self.serves {
                        self.fill(connection);
                    }
                }
                other => self.found.push(other),
            }
        }
        let taken = self.taken;
        self.with(|card, ports, _| {
            card.register_write(ports, 0, DART_REG_FIFO_TAKEN.into(), 4, taken.into());
        });
        any
    }

    /// Returns the pages that a connection waits for.
    pub(crate) fn misses(&mut self, connection: u32) -> Vec<u64> {
        self.run(DART_COMMAND_READ_MISSES, connection, &0_u64).unwrap();
        let body = self.command_page() + u64::from(ULN_COMMAND_BODY);
        let misses = DartMisses::read_from_bytes(&self.bytes(body, size_of::<DartMisses>())).unwrap();
        misses.pages[..misses.count as usize].to_vec()
    }

    /// Answers for the pages that a connection waits for.
    pub(crate) fn fill(&mut self, connection: u32) {
        let misses = self.misses(connection);
        self.fill_pages(&misses);
    }

    pub(crate) fn fill_pages(&mut self, misses: &[u64]) {
        for miss in misses {
            let frame = match self.pages.get(&(miss / PAGE)) {
                Some((frame, true)) => frame | DART_FRAME_WRITABLE,
                Some((frame, false)) if miss & DART_PAGE_WRITES == 0 => *frame,
                Some(_) => DART_FRAME_NONE | DART_FRAME_WRITABLE,
                None => DART_FRAME_NONE,
            };
            self.tell_frame(SPACE, miss & !(PAGE - 1), frame);
        }
    }

    pub(crate) fn tell_frame(&mut self, space: u32, address: u64, frame: u64) {
        self.store_register(DART_REG_TLB_SPACE, space.into());
        self.store_register(DART_REG_TLB_PAGE, address);
        self.store_register(DART_REG_TLB_FILL, frame);
    }

    pub(crate) fn invalidate(&mut self, page: u64, count: u64) {
        self.store_register(DART_REG_TLB_SPACE, SPACE.into());
        self.store_register(DART_REG_TLB_PAGE, page * PAGE);
        self.store_register(DART_REG_TLB_INVALIDATE, count);
    }

    fn store_register(&mut self, register: u32, value: u64) {
        self.store_in(register, 8, value);
    }

    pub(crate) fn store_in(&mut self, register: u32, width: u8, value: u64) {
        self.with(|card, ports, _| card.register_write(ports, 0, register.into(), width, value));
    }

    /// Removes the link, or sets it.
    pub(crate) fn link(&mut self, place: Option<Place>) {
        self.with(|card, ports, _| card.link_changed(ports, place));
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

    /// Gives the card another turn, if it wants one at once. Returns whether it did.
    pub(crate) fn go_on(&mut self) -> bool {
        let is_due = self.card.alarm() == Some(Duration::ZERO);
        if is_due {
            self.with(|card, ports, _| card.tick(ports));
        }
        is_due
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
}

/// Returns two hosts with an endpoint of `length` bytes and a connection 1 each, and the addresses
/// of the connections' states.
pub(crate) fn pair(length: u64, end: End) -> (Host, Host, [u64; 2]) {
    let (mut one, mut other) = (Host::new(0), Host::new(1));
    let states = [(&mut one, 1), (&mut other, 0)].map(|(host, peer)| {
        host.endpoint(0, length);
        for (queue, flags) in [(0, 0), (1, DART_QUEUE_IMMEDIATE)] {
            if end.queues.contains(&queue) {
                host.queue(queue, flags);
            }
        }
        host.connection(1, peer, end)
    });
    (one, other, states)
}

/// Carries packets between two hosts until neither has any, and no driver has anything to do.
/// Returns the number of packets.
pub(crate) fn exchange(one: &mut Host, other: &mut Host) -> usize {
    let mut carried = 0;
    loop {
        let (there, back) = (one.sent(), other.sent());
        let served = one.serve() | other.serve() | one.go_on() | other.go_on();
        if there.is_empty() && back.is_empty() && !served {
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

/// Returns the data of a message of several blocks that an exception reports.
pub(crate) fn data_of((record, behind): &(DartRecord, Vec<u8>)) -> Vec<u8> {
    let first = if record.length > DART_BLOCK { record.data.as_bytes() } else { &[] };
    let mut data = [first, behind].concat();
    data.truncate(record.length as usize);
    data
}

pub(crate) fn pattern(length: u64) -> Vec<u8> {
    (0..length).map(|byte| (byte * 7 + byte / 251 + 1) as u8).collect()
}

/// Returns the control of a message to registers 0 to 2.
pub(crate) fn control(opcode: u32, operand: u64) -> DartControl {
    DartControl { opcode, mask: 0, indices: [0, 1, 2], operand }
}

/// Returns a register operation in its field.
pub(crate) fn step(shift: u32, op: u32, source: u32, target: u32) -> u32 {
    (op | source << DART_SOURCE_SHIFT | target << DART_TARGET_SHIFT) << shift
}
