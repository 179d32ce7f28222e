//! Atomic operations between whole engines, over links in memory.

use proptest::prelude::*;

use super::atomic::{Atomic, Form, Operands};
use super::regions::Region;
use super::tests::{Pair, area, brief};
use super::wire::HEADER;
use super::*;
use crate::abi::*;

/// Registers memory of the second end under key 1.
fn register(pair: &Pair, memory: &[u8], readable: bool, writable: bool) {
    let region = Region { area: area(memory), base: 0x1000, readable, writable };
    assert_eq!(pair.regions[1].lock().expect("a lock").insert(Some(1), region), Some(1));
}

/// Has the first end change memory of the second. Returns what its program hears.
fn change(pair: &mut Pair, atomic: Atomic, operands: Operands, place: u64) -> Vec<(usize, usize, i32)> {
    let operation = Operation { context: 3, flags: FI_ATOMIC, report: true };
    match pair.ends[0].change(0, atomic, operands, (1, place), operation) {
        Ok(()) => {
            pair.run();
            brief(&pair.events(0))
        }
        Err(error) => vec![(3, 0, error)],
    }
}

/// Changes one value, and returns what was there and what is there now.
fn changed<const N: usize>(datatype: u32, op: u32, values: [[u8; N]; 3]) -> ([u8; N], [u8; N]) {
    let (mut pair, [memory, operand, compare]) = (Pair::new(4), values);
    let (memory, result) = (memory.to_vec(), vec![0; N]);
    register(&pair, &memory, true, true);
    let form = if op >= FI_CSWAP { Form::Compare } else { Form::Fetch };
    let operands = Operands { operand: area(&operand), compare: area(&compare), result: Some(area(&result)) };
    let done = change(&mut pair, Atomic { datatype, op, form }, operands, 0x1000);
    assert_eq!(done, [(3, N, 0)]);
    let now = pair.regions[1].lock().expect("a lock").find(1, 0x1000, N as u64, false).expect("a region");
    let value = |area: Area| area.to_vec().try_into().expect("one value");
    (value(area(&result)), value(now))
}

#[test]
fn operations_change_values_as_specified() {
    // Of a value, an operand and what is compared: what it becomes.
    let cases: [(u32, [i32; 3], i32); 18] = [
        (FI_MIN, [5, -7, 0], -7),
        (FI_MAX, [5, -7, 0], 5),
        (FI_SUM, [i32::MAX, 1, 0], i32::MIN),
        (FI_PROD, [-6, 7, 0], -42),
        (FI_LOR, [0, 9, 0], 1),
        (FI_LAND, [4, 0, 0], 0),
        (FI_LXOR, [4, 9, 0], 0),
        (FI_BOR, [0b1100, 0b1010, 0], 0b1110),
        (FI_BAND, [0b1100, 0b1010, 0], 0b1000),
        (FI_BXOR, [0b1100, 0b1010, 0], 0b0110),
        (FI_ATOMIC_WRITE, [1, 2, 0], 2),
        (FI_CSWAP, [1, 2, 1], 2),
        (FI_CSWAP_NE, [1, 2, 1], 1),
        (FI_CSWAP_LE, [1, 2, 1], 2),
        (FI_CSWAP_LT, [1, 2, 1], 1),
        (FI_CSWAP_GE, [1, 2, 0], 1),
        (FI_CSWAP_GT, [1, 2, 3], 2),
        (FI_MSWAP, [0x1234, 0x5678, 0x00ff], 0x1278),
    ];
    for (op, values, wanted) in cases {
        let (was, now) = changed(FI_INT32, op, values.map(i32::to_ne_bytes));
        assert_eq!((i32::from_ne_bytes(was), i32::from_ne_bytes(now)), (values[0], wanted), "{op}");
    }
    let (_, now) = changed(FI_DOUBLE, FI_SUM, [1.5_f64, -0.25, 0.0].map(f64::to_ne_bytes));
    assert_eq!(f64::from_ne_bytes(now), 1.25);
    // -1 is larger than 1 without a sign.
    let (_, now) = changed(FI_UINT8, FI_MAX, [[1], [255], [0]]);
    assert_eq!(now, [255]);
}

#[test]
fn unsupported_and_invalid_operations_are_refused() {
    let (memory, operand, result) = (vec![7_u8; 16], vec![1_u8; 16], vec![0_u8; 16]);
    let mut pair = Pair::new(4);
    register(&pair, &memory, true, false);
    let update = |datatype, op| Atomic { datatype, op, form: Form::Update };
    let of = |length| Operands { operand: area(&operand[..length]), ..Operands::default() };
    for (atomic, operands, place, error) in [
        (update(FI_DOUBLE, FI_BOR), of(8), 0x1000, libc::EOPNOTSUPP),
        (update(99, FI_SUM), of(8), 0x1000, libc::EOPNOTSUPP),
        (update(FI_INT32, FI_CSWAP), of(4), 0x1000, libc::EOPNOTSUPP),
        (update(FI_INT32, FI_SUM), of(6), 0x1000, libc::EINVAL),
        (update(FI_INT32, FI_SUM), of(0), 0x1000, libc::EINVAL),
        (update(FI_INT32, FI_SUM), of(8), 0x1000, libc::EACCES),
    ] {
        let what = format!("{atomic:?} at {place:#x}");
        assert_eq!(change(&mut pair, atomic, operands, place), [(3, 0, error)], "{what}");
    }
    let read = Atomic { datatype: FI_INT64, op: FI_ATOMIC_READ, form: Form::Fetch };
    let to = || Operands { result: Some(area(&result)), ..Operands::default() };
    assert_eq!(change(&mut pair, read, to(), 0x1000), [(3, 16, 0)]);
    assert_eq!((area(&memory).to_vec(), area(&result).to_vec()), (vec![7; 16], vec![7; 16]));
    assert_eq!(change(&mut pair, read, to(), 0x1008), [(3, 0, libc::EFAULT)]);
}

#[test]
fn atomic_packets_that_lie_lose_their_peer() {
    let good = Header {
        tag: 1,
        place: 0x1000,
        length: 8,
        data: u64::from(FI_INT64 | FI_SUM << 8),
        ..Header::new(Kind::Atomic)
    };
    for (header, bytes, what) in [
        (Header { length: 16, ..good }, 8, "more than its bytes"),
        (Header { length: 0, ..good }, 0, "nothing"),
        (Header { length: u64::MAX, ..good }, 8, "a length that overflows"),
        (Header { data: 3 << 16 | good.data, ..good }, 8, "an unknown form"),
        (Header { data: u64::from(FI_INT64 | FI_CSWAP << 8), ..good }, 8, "a comparison without a result"),
        (Header { data: 77, ..good }, 8, "an unknown type"),
    ] {
        let (memory, mut pair) = (vec![7_u8; 16], Pair::new(4));
        let region = Region { area: area(&memory), base: 0x1000, readable: true, writable: true };
        pair.regions[0].lock().expect("a lock").insert(Some(1), region);
        let mut packet = header.to_bytes().to_vec();
        packet.extend(vec![1; bytes]);
        assert_eq!(packet.len(), HEADER + bytes);
        pair.back.borrow_mut().push_back(packet);
        pair.ends[0].progress();
        assert_eq!(area(&memory).to_vec(), [7; 16], "{what}");
        assert_eq!(pair.ends[0].links.iter().flatten().count(), 0, "{what}");
    }
}

proptest! {
    #[test]
    fn concurrent_sums_lose_nothing(
        room in 1_usize..5,
        steps in prop::collection::vec((1_u64..100, any::<bool>(), 0_usize..3), 1..60),
    ) {
        let mut pair = Pair::new(room);
        let memory = vec![0_u8; 8];
        register(&pair, &memory, true, true);
        let values: Vec<[u8; 8]> = steps.iter().map(|(value, ..)| value.to_ne_bytes()).collect();
        let results = vec![[0_u8; 8]; steps.len()];
        let result = |at: usize| area(&results[at]);
        for (at, (_, fetches, turns)) in steps.iter().enumerate() {
            let form = if *fetches { Form::Fetch } else { Form::Update };
            let result = fetches.then(|| result(at));
            let operands = Operands { operand: area(&values[at]), result, ..Operands::default() };
            let operation = Operation { context: at, flags: FI_ATOMIC, report: true };
            let sum = Atomic { datatype: FI_UINT64, op: FI_SUM, form };
            prop_assert_eq!(pair.ends[0].change(0, sum, operands, (1, 0x1000), operation), Ok(()));
            for _ in 0..*turns {
                pair.ends[1].progress();
                pair.ends[0].progress();
            }
        }
        pair.run();
        prop_assert_eq!(pair.events(0).len(), steps.len());
        let mut sum = 0;
        for (at, (value, fetches, _)) in steps.iter().enumerate() {
            // Operations of one endpoint are executed in order.
            prop_assert!(!fetches || result(at).to_vec() == u64::to_ne_bytes(sum));
            sum += value;
        }
        let now = pair.regions[1].lock().expect("a lock").find(1, 0x1000, 8, false).expect("a region");
        prop_assert_eq!(now.to_vec(), sum.to_ne_bytes());
    }
}
