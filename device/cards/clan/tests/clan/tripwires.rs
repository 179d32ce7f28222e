//! Tripwires: setting, firing, firing once, disabling.

use std::cell::RefCell;

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::fifo::{CLAN_FIFO_NUMBER_SHIFT, CLAN_FIFO_TRIPWIRE};
use hamlyn_abi::clan::registers::*;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_card::card::Card;
use hamlyn_card::ports::{Dma, DmaFault, Operation, Packet, Ports, VolatileSlice};
use hamlyn_card_clan::Options;
use hamlyn_test_host::Commands;

use crate::support::*;

const BOTH: u32 = CLAN_APERTURE_READ | CLAN_APERTURE_WRITE;
const ON_WRITES: u32 = CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_BIT | CLAN_TRIPWIRE_COUNT;

/// Returns a pair of hosts, and the address of the memory of an endpoint at the second.
fn watched() -> (Host, Host, u64) {
    let (one, mut other, ..) = pair(BOTH);
    let memory = other.endpoint(1, CLAN_NO_EVENTS);
    (one, other, memory)
}

#[test]
fn tripwire_fires_once_for_each_matching_access() {
    let (mut one, mut other, memory) = watched();
    assert_eq!(other.set((1, 0), (12, 4), 3, ON_WRITES, memory), CLAN_TRIPWIRE_OK);
    assert_eq!(other.set((1, 5), (8, 24), 3, ON_WRITES, memory), CLAN_TRIPWIRE_OK);
    one.store(WINDOW + 8, 4, 1);
    exchange(&mut one, &mut other);
    assert_eq!((other.fired(memory, 0), other.fired(memory, 5)), (0, 1), "the other half of the word");
    one.store(WINDOW + 12, 4, 1);
    one.store(WINDOW + 12, 4, 1);
    exchange(&mut one, &mut other);
    assert_eq!((other.fired(memory, 0), other.fired(memory, 5)), (2, 3));
    for word in 0..8 {
        one.store(WINDOW + word * 8, 8, 1);
    }
    assert_eq!(exchange(&mut one, &mut other), 1, "as one packet");
    assert_eq!((other.fired(memory, 0), other.fired(memory, 5)), (3, 6));
    assert_eq!(other.take_bits(memory), 1 | 1 << 5);
    assert_eq!(other.counter("tripwires_fired"), 9);
}

#[test]
fn bitmap_has_one_bit_for_each_tripwire() {
    let (mut one, mut other, memory) = watched();
    for number in 0..3 {
        let watches = (u64::from(number) * 8, 8);
        assert_eq!(other.set((1, number), watches, 3, ON_WRITES, memory), CLAN_TRIPWIRE_OK);
    }
    let mut fire = |other: &mut Host, words: &[u64]| {
        words.iter().for_each(|word| one.store(WINDOW + word * 8, 8, 1));
        exchange(&mut one, other);
    };
    fire(&mut other, &[0, 2]);
    assert_eq!(other.word(memory + u64::from(CLAN_STATE_BITS)), 0b101, "one word of memory for all");
    fire(&mut other, &[0, 0]);
    assert_eq!(other.bits(memory), 0b101, "what fires again stays set");
    // The owner clears one of the bits, and another Tripwire fires.
    other.put(memory + u64::from(CLAN_STATE_CLEARED), &[0b001]);
    fire(&mut other, &[1]);
    assert_eq!(other.bits(memory), 0b110);
    fire(&mut other, &[0]);
    assert_eq!(other.take_bits(memory), 0b111);
    fire(&mut other, &[1]);
    assert_eq!(other.bits(memory), 0b010);
}

#[test]
fn once_fires_once_and_disabled_never_fires() {
    let (mut one, mut other, memory) = watched();
    other.set((1, 0), (0, 64), 3, ON_WRITES | CLAN_TRIPWIRE_ONCE, memory);
    other.set((1, 1), (0, 64), 3, ON_WRITES, memory);
    other.set((1, 1), (0, 64), 3, 0, memory);
    for word in 0..8 {
        one.store(WINDOW + word * 8, 8, 1);
    }
    exchange(&mut one, &mut other);
    assert_eq!((other.fired(memory, 0), other.fired(memory, 1), other.take_bits(memory)), (1, 0, 1));
    one.store(WINDOW, 8, 1);
    exchange(&mut one, &mut other);
    assert_eq!(other.take_bits(memory), 0);
    // One store enables the Tripwire again.
    other.tell(1, CLAN_TRIPWIRE_CONTROL, 4, (ON_WRITES | CLAN_TRIPWIRE_ONCE).into());
    one.store(WINDOW, 8, 1);
    exchange(&mut one, &mut other);
    assert_eq!((other.fired(memory, 0), other.take_bits(memory)), (2, 1));
}

#[test]
fn reads_fire_tripwires_that_watch_reads() {
    let (mut one, mut other, memory) = watched();
    let reads = ON_WRITES & !CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_READS;
    other.set((1, 0), (0, 8), 3, reads, memory);
    other.set((1, 1), (0, 8), 3, ON_WRITES, memory);
    one.load(WINDOW, 4);
    exchange(&mut one, &mut other);
    assert_eq!(other.take_bits(memory), 1);
    one.store(WINDOW, 4, 1);
    exchange(&mut one, &mut other);
    assert_eq!(other.take_bits(memory), 2);
}

#[test]
fn remote_tripwires_fire_for_their_owners_accesses() {
    let (mut one, mut other, _, memory) = pair(BOTH);
    let target = 3 | 1 << 32;
    let remote = ON_WRITES | CLAN_TRIPWIRE_REMOTE | CLAN_TRIPWIRE_READS;
    assert_eq!(one.set((2, 0), (40, 8), target, remote, memory), CLAN_TRIPWIRE_OK);
    one.store(WINDOW + 32, 8, 1);
    one.store(WINDOW + 40, 8, 1);
    assert_eq!(one.fired(memory, 0), 0, "it has not left");
    exchange(&mut one, &mut other);
    assert_eq!(one.fired(memory, 0), 1);
    one.load(WINDOW + 44, 2);
    one.sent().into_iter().for_each(|(_, packet)| other.arrive(0, &packet));
    assert_eq!(one.fired(memory, 0), 1, "the answer has not come");
    exchange(&mut one, &mut other);
    assert_eq!(one.fired(memory, 0), 2);
    // Accesses of another owner do not fire it.
    let (area, _) = one.area(4096 + 16 * 64, 0);
    let body = ClanOpenEndpoint {
        memory: area,
        owner: OWNER + 1,
        requests: 16,
        events: CLAN_NO_EVENTS,
        ..Default::default()
    };
    one.run(CLAN_COMMAND_OPEN_ENDPOINT, 4, &body).unwrap();
    one.window(30, (1, 3), PAGE, 4);
    one.store(30 * PAGE + 40, 8, 1);
    exchange(&mut one, &mut other);
    assert_eq!(one.fired(memory, 0), 2);
}

#[test]
fn invalid_tripwire_is_refused_with_reason() {
    let (_, mut other, memory) = watched();
    let (area, _) = other.area(64, 0);
    let strange = ClanOpenAperture { area, key: KEY, owner: OWNER + 1, flags: BOTH, ..Default::default() };
    other.try_aperture(6, &strange).unwrap();
    let cases = [
        ((0, 8), 6, ON_WRITES, CLAN_TRIPWIRE_NO_APERTURE),
        ((0, 8), 5, ON_WRITES, CLAN_TRIPWIRE_NO_APERTURE),
        ((0, 8), 3 | 1 << 32, ON_WRITES, CLAN_TRIPWIRE_NO_APERTURE),
        ((0, 0), 3, ON_WRITES, CLAN_TRIPWIRE_BAD_RANGE),
        ((4090, 8), 3, ON_WRITES, CLAN_TRIPWIRE_BAD_RANGE),
        ((u64::MAX, 8), 3, ON_WRITES, CLAN_TRIPWIRE_BAD_RANGE),
        ((1 << 30, 8), 3, ON_WRITES | CLAN_TRIPWIRE_REMOTE, CLAN_TRIPWIRE_BAD_RANGE),
        ((0, 8), 3, CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_BIT, CLAN_TRIPWIRE_BAD_FLAGS),
        ((0, 8), 3, CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_READS, CLAN_TRIPWIRE_BAD_FLAGS),
        ((0, 8), 3, ON_WRITES | 0x200, CLAN_TRIPWIRE_BAD_FLAGS),
        ((0, 8), 3, ON_WRITES | CLAN_TRIPWIRE_EVENT, CLAN_TRIPWIRE_NO_EVENTS),
    ];
    for (range, target, flags, answer) in cases {
        assert_eq!(
            other.set((1, 0), range, target, flags, memory),
            answer,
            "{range:?} {target:#x} {flags:#x}"
        );
    }
    let refused = other.counter("tripwires_refused");
    assert_eq!(refused, cases.len() as u64);
    other.tell(1, 8 * CLAN_TRIPWIRE_STRIDE + CLAN_TRIPWIRE_CONTROL, 4, 1);
    other.tell(0, CLAN_TRIPWIRE_CONTROL, 4, 1);
    other.tell(1, 0x900, 4, 1);
    other.tell(1, CLAN_TRIPWIRE_OFFSET, 2, 1);
    assert_eq!(other.counter("tripwires_refused"), refused + 4);
}

#[test]
fn crowded_word_takes_no_more_tripwires() {
    let mut host = Host::with_options(1, hamlyn_card_clan::Options { tripwires: 256, ..OPTIONS });
    host.aperture(3, PAGE, BOTH);
    for endpoint in 0..8 {
        let length = 4096 + 16 * 64;
        let (memory, start) = host.area(length, 0);
        let body = ClanOpenEndpoint {
            memory,
            owner: OWNER,
            tripwires: 32,
            requests: 16,
            events: CLAN_NO_EVENTS,
            ..Default::default()
        };
        host.run(CLAN_COMMAND_OPEN_ENDPOINT, endpoint, &body).unwrap();
        for number in 0..32 {
            let answer = if endpoint < 2 { CLAN_TRIPWIRE_OK } else { CLAN_TRIPWIRE_CROWDED };
            assert_eq!(host.set((endpoint, number), (8, 8), 3, ON_WRITES, start), answer);
        }
    }
    let (memory, _) = host.area(4096 + 16 * 64, 0);
    let body = ClanOpenEndpoint {
        memory,
        owner: OWNER,
        tripwires: 1,
        requests: 16,
        events: CLAN_NO_EVENTS,
        ..Default::default()
    };
    host.run(CLAN_COMMAND_CLOSE_ENDPOINT, 7, &[0_u64]).unwrap();
    host.run(CLAN_COMMAND_OPEN_ENDPOINT, 7, &body).unwrap();
}

#[test]
fn tripwires_end_with_aperture_and_endpoint() {
    let (mut one, mut other, memory) = watched();
    other.set((1, 0), (0, 8), 3, ON_WRITES, memory);
    let (area, _) = other.area(PAGE, 0);
    other.run(CLAN_COMMAND_CLOSE_APERTURE, 3, &[0_u64]).unwrap();
    let body = ClanOpenAperture { area, key: KEY, owner: OWNER + 1, flags: BOTH, ..Default::default() };
    other.try_aperture(3, &body).unwrap();
    one.store(WINDOW, 8, 1);
    exchange(&mut one, &mut other);
    assert_eq!(other.take_bits(memory), 0, "another's aperture of the same number");
    other.run(CLAN_COMMAND_CLOSE_APERTURE, 3, &[0_u64]).unwrap();
    other.try_aperture(3, &ClanOpenAperture { owner: OWNER, ..body }).unwrap();
    other.set((1, 0), (0, 8), 3, ON_WRITES, memory);
    other.run(CLAN_COMMAND_CLOSE_ENDPOINT, 1, &[0_u64]).unwrap();
    other.put(memory, &[0; 4096]);
    one.store(WINDOW, 8, 1);
    exchange(&mut one, &mut other);
    assert!(other.bytes(memory, 4096).iter().all(|byte| *byte == 0));
}

#[test]
fn each_sleeper_is_woken_once() {
    let (mut one, mut other, memory) = watched();
    let fifo = other.fifo();
    other.set((1, 0), (0, 8), 3, ON_WRITES, memory);
    other.set((1, 1), (8, 8), 3, ON_WRITES, memory);
    let store = |one: &mut Host, other: &mut Host, offset| {
        one.store(WINDOW + offset, 8, 1);
        exchange(one, other);
    };
    store(&mut one, &mut other, 0);
    assert_eq!((other.raised(), other.word(fifo + 4)), (vec![], 0), "no thread sleeps");
    // The Tripwire's bit is already set.
    other.write_register(CLAN_REG_ARM, 8, 1 | 1 << 16);
    assert_eq!((other.raised(), other.word(fifo), other.word(fifo + 4)), (vec![1], 1, 1));
    other.take_bits(memory);
    // Before the driver reports the record as taken, a process sleeps on the other Tripwire.
    other.write_register(CLAN_REG_ARM, 8, 1 | 2 << 16);
    store(&mut one, &mut other, 8);
    assert_eq!(other.raised(), [0_u16; 0]);
    other.write_register(CLAN_REG_FIFO_TAKEN, 4, 1);
    assert_eq!((other.raised(), other.word(fifo + 12)), (vec![1], 2));
    store(&mut one, &mut other, 8);
    other.write_register(CLAN_REG_FIFO_TAKEN, 4, 2);
    assert_eq!(other.raised(), [0_u16; 0], "a woken thread does not sleep");
    // This action needs no sleeper.
    other.set((1, 2), (16, 8), 3, CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_FIFO, memory);
    store(&mut one, &mut other, 16);
    assert_eq!((other.raised(), other.word(fifo + 16)), (vec![1], CLAN_FIFO_TRIPWIRE | 2 << 16 | 1));
}

#[test]
fn fifo_holds_identifiers_of_tripwires() {
    let (mut one, mut other, memory) = watched();
    let fifo = other.fifo();
    let flags = CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_FIFO;
    for number in [3, 7] {
        other.set((1, number), (u64::from(number) * 8, 8), 3, flags, memory);
    }
    for offset in [7, 3, 7, 3] {
        one.store(WINDOW + offset * 8, 8, 1);
        exchange(&mut one, &mut other);
    }
    let record = |n: u64| (other.word(fifo + 8 * n), other.word(fifo + 8 * n + 4));
    let of = |number: u32| CLAN_FIFO_TRIPWIRE | number << CLAN_FIFO_NUMBER_SHIFT | 1;
    assert_eq!([record(0), record(1), record(2)], [(of(7), 1), (of(3), 2), (0, 0)]);
    assert_eq!(other.take_bits(memory), 1 << 7 | 1 << 3, "the bits wake their waiters");
}

#[test]
fn unwatchable_accesses_fire_nothing() {
    let (mut one, _, _, memory) = pair(BOTH);
    let remote = ON_WRITES | CLAN_TRIPWIRE_REMOTE;
    one.set((2, 0), (0, 8), 3 | 1 << 32, remote, memory);
    for offset in [1 << 33, u64::MAX - 15] {
        let body = ClanOpenWindow {
            key: KEY,
            offset,
            length: 8,
            host: 1,
            aperture: 3,
            endpoint: 2,
            ..Default::default()
        };
        one.run(CLAN_COMMAND_OPEN_WINDOW, 20, &body).unwrap();
        one.store(20 * PAGE, 8, 1);
        assert_eq!(one.sent().len(), 1);
        one.run(CLAN_COMMAND_CLOSE_WINDOW, 20, &[0_u64]).unwrap();
    }
    assert_eq!(one.fired(memory, 0), 0);
}

/// Memory that records the addresses of writes.
struct Noting<'a> {
    memory: &'a dyn Dma,
    written: RefCell<Vec<u64>>,
}

impl Dma for Noting<'_> {
    fn read(&self, address: u64, into: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.memory.read(address, into)
    }

    fn lend(&self, address: u64, length: usize) -> Result<VolatileSlice<'_>, DmaFault> {
        self.memory.lend(address, length)
    }

    fn write(&self, address: u64, from: VolatileSlice<'_>) -> Result<(), DmaFault> {
        self.written.borrow_mut().push(address);
        self.memory.write(address, from)
    }

    fn publish(&self, address: u64, value: u32) -> Result<(), DmaFault> {
        self.written.borrow_mut().push(address);
        self.memory.publish(address, value)
    }

    fn fetch(&self, address: u64, operation: Operation) -> Result<u64, DmaFault> {
        self.memory.fetch(address, operation)
    }
}

/// Returns the addresses that the card writes to when a packet arrives, in order.
fn written_by(host: &mut Host, source: u16, packet: &mut [u8]) -> Vec<u64> {
    host.with(|card, ports, _| {
        let noting = Noting { memory: ports.dma, written: RefCell::default() };
        let ports = Ports { dma: &noting, ..*ports };
        card.packet_arrived(&ports, &Packet { source, bytes: VolatileSlice::from(packet).into() });
        card.sleep(&ports);
        noting.written.into_inner()
    })
}

/// A packet of 16 KiB, with Tripwires on its last word, its first, and one in the middle, set in
/// this order.
#[test]
fn tripwires_fire_in_the_order_of_the_bytes() {
    const LENGTH: u64 = 16 << 10;
    let options = Options { burst: 16384, credits: 8192, ..OPTIONS };
    let (mut one, mut other) = (Host::with_options(0, options), Host::with_options(1, options));
    let aperture = other.aperture(3, LENGTH, CLAN_APERTURE_WRITE);
    let memory = other.endpoint(1, CLAN_NO_EVENTS);
    let flags = CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_BIT;
    let watched = [LENGTH - 8, 0, LENGTH / 2];
    for (number, at) in (0..).zip(watched) {
        assert_eq!(other.set((1, number), (at, 8), 3, flags, memory), CLAN_TRIPWIRE_OK);
    }
    let endpoint = one.endpoint(2, CLAN_NO_EVENTS);
    one.aperture(1, LENGTH, 0);
    one.request(2, endpoint, 0, write_request(0, 0, LENGTH));
    let (_, mut packet) = one.sent().remove(0);
    let written = written_by(&mut other, 0, &mut packet);
    let when = |address: u64| written.iter().position(|at| *at == address).unwrap();
    let mut bits = (0..).zip(&written).filter(|(_, at)| **at == memory + u64::from(CLAN_STATE_BITS));
    let stored = |at: u64| when(aperture + at);
    for at in [0, LENGTH / 2, LENGTH - 8] {
        let (fired, _) = bits.next().unwrap();
        assert!(stored(at) < fired, "what it watches is there");
        assert!(at + 8 == LENGTH || fired < stored(at + 8), "and the rest is not");
    }
    assert_eq!(other.bits(memory), 0b111);
}

/// A reader that finds both counts equal has the words of one fault.
#[test]
fn fault_words_are_written_between_the_counts() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_READ);
    one.store(WINDOW + 8, 8, 1);
    for (_, packet) in one.sent() {
        other.arrive(0, &packet);
    }
    let mut written = Vec::new();
    for (_, mut packet) in other.sent() {
        written.extend(written_by(&mut one, 1, &mut packet));
    }
    let when = |place: u32| written.iter().position(|at| *at == endpoint + u64::from(place)).unwrap();
    let words = [CLAN_STATE_FAULT_USE, CLAN_STATE_FAULT_REASON, CLAN_STATE_FAULT_OFFSET].map(when);
    assert!(words.iter().all(|word| when(CLAN_STATE_FAULTS_BEGUN) < *word), "{written:x?}");
    assert!(words.iter().all(|word| *word < when(CLAN_STATE_FAULTS)), "{written:x?}");
}
