//! A driver, a process and a peer with arbitrary behaviour. The card neither panics nor accesses
//! anything outside its memory and window (the hosts of `support` would panic). A reset restores
//! it.

use crate::support::Host;
use hamlyn_abi::family::area::UlnArea;
use hamlyn_abi::family::command::{ULN_COMMAND_BODY, ULN_REG_COMMAND_GO, ULN_REG_COMMAND_PAGE, UlnCommand};
use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use hamlyn_abi::family::identity::{ULN_MAGIC, ULN_REG_MAGIC};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HAMLYN_REQUEST_DMA, HamlynRequest};
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::card::{Card, Progress};
use hamlyn_card::ports::Window;
use hamlyn_card_hamlyn::HamlynOptions;
use proptest::prelude::*;
use zerocopy::IntoBytes;

const OPTIONS: HamlynOptions = HamlynOptions {
    packet_size: 256,
    sram_size: 16384,
    termini: 2,
    queues: 2,
    vectors: 3,
    handshake_ms: 0,
    coherent_windows: true,
};

/// A directory that card and driver would both accept as an area's. It names one list page.
const DIRECTORY: u64 = 0x10_0000;
const KEY: u64 = 5;

#[derive(Debug, Clone)]
enum Step {
    Command { opcode: u32, index: u32, body: Vec<u8> },
    Register { bar: u8, offset: u64, width: u8, value: u64 },
    Memory { word: u64, value: u64 },
    Request { terminus: u32, posted: u32, entry: Vec<u8> },
    Transmit { most: usize },
    Packet { words: Vec<u64>, bytes: usize },
    Sleep,
}

/// Numbers near a limit, and arbitrary ones.
fn number() -> impl Strategy<Value = u32> {
    let near = [0, 1, 2, 5, 60, 61, 63, 64, 128, 256, 448, 4095, 4096, 65536, 1 << 30, u32::MAX];
    prop_oneof![4 => proptest::sample::select(near.to_vec()), 1 => any::<u32>()]
}

fn word() -> impl Strategy<Value = u64> {
    let pair = |(low, high): (u32, u32)| u64::from(low) | u64::from(high) << 32;
    prop_oneof![
        3 => number().prop_map(u64::from),
        3 => Just(DIRECTORY),
        2 => (number(), number()).prop_map(pair),
        1 => (0..8192_u64).prop_map(|near| u64::MAX - near),
    ]
}

fn words(most: usize) -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(word(), 0..most)
}

/// Mostly a good number, otherwise one that may be wrong.
fn mostly(good: impl Strategy<Value = u32> + 'static) -> impl Strategy<Value = u32> {
    prop_oneof![12 => good, 1 => number()]
}

/// Mostly an area of `length` bytes.
fn area(length: u32) -> impl Strategy<Value = UlnArea> {
    let directory = prop_oneof![12 => Just(DIRECTORY), 1 => word()];
    (directory, mostly(Just(length)), mostly(Just(0))).prop_map(|(directory, length, first)| UlnArea {
        directory,
        length: length.into(),
        first,
        reserved: 0,
    })
}

fn open_slot() -> impl Strategy<Value = HamlynOpenSlot> {
    let metadata = (1..5_u32).prop_flat_map(|entries| (area(entries * 128), mostly(Just(entries))));
    (area(65536), metadata, mostly(0..3_u32), mostly(0..2_u32), 0..2_u32).prop_map(
        |(area, (metadata, metadata_entries), mode, queue, flags)| HamlynOpenSlot {
            area,
            metadata,
            key: KEY,
            metadata_entries,
            mode,
            queue,
            flags,
            ..Default::default()
        },
    )
}

fn command() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let place = prop_oneof![4 => Just(0x20_0000_u64), 1 => word()];
    let terminus = (place, mostly(1..65_u32), mostly(0..4_u32), mostly(1..3_u32)).prop_map(
        |(status, weight, flags, vector)| {
            HamlynOpenTerminus { status, weight, flags, vector, reserved: 0 }.as_bytes().to_vec()
        },
    );
    let buffer = (mostly(0..2_u32), area(65536))
        .prop_map(|(tag, area)| HamlynSetSendBuffer { tag, reserved: 0, area }.as_bytes().to_vec());
    let queue = (2..70_u32)
        .prop_flat_map(|entries| (area(entries * 32), mostly(Just(entries)), mostly(1..3_u32)))
        .prop_map(|(area, entries, vector)| HamlynOpenQueue { area, entries, vector }.as_bytes().to_vec());
    prop_oneof![
        3 => terminus.prop_map(|body| (HAMLYN_COMMAND_OPEN_TERMINUS, body)),
        3 => buffer.prop_map(|body| (HAMLYN_COMMAND_SET_SEND_BUFFER, body)),
        3 => queue.prop_map(|body| (HAMLYN_COMMAND_OPEN_QUEUE, body)),
        3 => open_slot().prop_map(|body| (HAMLYN_COMMAND_OPEN_SLOT, body.as_bytes().to_vec())),
        2 => (0..12_u32, words(14)).prop_map(|(opcode, body)| (opcode, bytes(&body))),
    ]
}

/// A work-queue entry, mostly of a message to the card itself.
fn entry() -> impl Strategy<Value = Vec<u8>> {
    let place =
        (mostly(0..3_u32), mostly(prop_oneof![0..2_u32, Just(HAMLYN_FAST_MODE)]), mostly(0..4096_u32));
    let sizes = (mostly(0..400_u32), mostly(prop_oneof![Just(0_u32), 0..61_u32]), mostly(0..2_u32), number());
    let tuple = (mostly(0..2_u32), mostly(0..4096_u32)).prop_map(|(tag, offset)| [tag, 0, offset, 100]);
    let gather = (prop_oneof![4 => 0..16_u32, 1 => number()], proptest::collection::vec(tuple, 28));
    (place, sizes, gather).prop_map(|((slot, metadata_index, offset), sizes, (flags, tuples))| {
        let (mut length, metadata_length, gather_count, delta) = sizes;
        let dma = flags & HAMLYN_REQUEST_DMA != 0;
        if dma && length % 3 != 0 {
            length = (100 * gather_count.min(28)).saturating_sub(metadata_length);
        }
        let gather_count = if dma { gather_count } else { 0 };
        let request = HamlynRequest {
            slot,
            metadata_index,
            flags,
            key: KEY,
            offset,
            length,
            delta,
            metadata_length,
            gather_count,
            ..Default::default()
        };
        [request.as_bytes(), tuples.as_bytes()].concat()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let width = prop_oneof![Just(4_u8), Just(8)];
    prop_oneof![
        8 => (command(), 0..3_u32).prop_map(|((opcode, body), index)| Step::Command { opcode, index, body }),
        1 => (0..6_u8, 0..0x60_u64, width, word()).prop_map(|(bar, at, width, value)| {
            Step::Register { bar, offset: at * u64::from(width), width, value }
        }),
        1 => (0..1024_u64, word()).prop_map(|(word, value)| Step::Memory { word, value }),
        6 => (0..2_u32, mostly(1..3_u32), entry())
            .prop_map(|(terminus, posted, entry)| Step::Request { terminus, posted, entry }),
        4 => (1..20_usize).prop_map(|most| Step::Transmit { most }),
        1 => (words(20), 0..400_usize).prop_map(|(words, bytes)| Step::Packet { words, bytes }),
        1 => Just(Step::Sleep),
    ]
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn take(host: &mut Host, step: Step) {
    match step {
        Step::Command { opcode, index, body } => {
            let mut page = [0_u8; 128];
            page[..body.len()].copy_from_slice(&body);
            // If a register has moved the command page, the card finds another command, or none.
            host.write(4096, UlnCommand { opcode, index, ..Default::default() });
            host.write(4096 + u64::from(ULN_COMMAND_BODY), page);
            host.write_register(ULN_REG_COMMAND_GO, 4, 1);
        }
        Step::Register { bar, offset, width, value } => {
            host.with_card(|card, ports, _| card.register_write(ports, bar, offset, width, value));
            host.with_card(|card, ports, _| card.register_read(ports, bar, offset, width));
        }
        // The directory, and the list page behind it.
        Step::Memory { word, value } => host.write(DIRECTORY + 8 * word, value),
        Step::Request { terminus, posted, entry } => {
            let window = u64::from(terminus * HAMLYN_WINDOW_SIZE);
            let tail = host.window.load(window + u64::from(HAMLYN_WINDOW_TAIL));
            let place = HAMLYN_WINDOW_WORK_QUEUE + tail % HAMLYN_WORK_QUEUE_ENTRIES * HAMLYN_ENTRY_SIZE;
            for (at, word) in (0..).step_by(4).zip(entry.chunks(4)) {
                let word = u32::from_le_bytes(word.try_into().unwrap());
                host.window.store(window + u64::from(place) + at, word);
            }
            host.window.store(window + u64::from(HAMLYN_WINDOW_TAIL), tail.wrapping_add(posted));
            host.ring(terminus);
        }
        Step::Transmit { most } => {
            for _ in 0..most {
                host.with_card(|card, ports, wire| card.transmit(ports, wire));
            }
            for (_, packet) in std::mem::take(&mut host.wire.sent) {
                host.deliver(1, packet);
            }
        }
        Step::Packet { words, bytes: length } => {
            let mut packet = bytes(&words);
            packet.resize(length, 0);
            host.deliver(1, packet);
        }
        Step::Sleep => drop(host.with_card(|card, ports, _| card.sleep(ports))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reset_restores_card_after_arbitrary_input(
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut host = Host::new(0, OPTIONS);
        for page in 0..512 {
            host.write(DIRECTORY + 8 * page, DIRECTORY + 4096);
            host.write(DIRECTORY + 4096 + 8 * page, DIRECTORY + 8192 + 4096 * page);
        }
        for step in steps {
            take(&mut host, step);
        }
        host.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_RESET.into());
        prop_assert_eq!(host.read_register(ULN_REG_MAGIC, 4), u64::from(ULN_MAGIC));
        prop_assert!(host.card.counters().iter().all(|(_, count)| *count == 0));
        // The card takes back what was half sent, and then sleeps.
        (host.wire.sent, host.wire.room) = (Vec::new(), None);
        prop_assert_eq!(host.transmit_all(), Progress::Idle);
        prop_assert!(host.wire.sent.iter().all(|(_, packet)| packet.len() == 40 && packet[32] & 32 != 0));
        host.write_register(ULN_REG_COMMAND_PAGE, 8, 4096);
        for terminus in 0..OPTIONS.termini {
            host.open_terminus(terminus);
        }
        host.open_queue(4);
    }
}
