//! For arbitrary stores, page splits and merging, the mapped parts arrive as they were stored, in
//! order. Nothing else arrives.

use hamlyn_abi::shrimp::entry::*;
use proptest::prelude::*;

use crate::support::*;

/// Pages that are mapped out, and the pages that they are mapped to.
const PAGES_OUT: [u32; 3] = [10, 11, 12];
const PAGES_IN: [u64; 2] = [20, 21];

#[derive(Debug, Clone)]
enum Act {
    Store { offset: u64, bytes: Vec<u8> },
    Wait(u64),
    Send(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let store = (0..3 * PAGE - 16, prop::collection::vec(any::<u8>(), 1..=16), any::<bool>());
    prop_oneof![
        6 => store.prop_map(|(offset, bytes, close)| {
            // Half of the stores are near the splits and the ends of pages.
            Act::Store { offset: if close { offset / 64 % 3 * PAGE + 4088 + offset % 8 } else { offset }, bytes }
        }),
        1 => (0..60_u64).prop_map(Act::Wait),
        1 => (0..5_usize).prop_map(Act::Send),
    ]
}

/// Runs of consecutive stores, as programs make them.
fn acts() -> impl Strategy<Value = Vec<Act>> {
    let run = (0..3 * PAGE - 600, 1..40_u64, 1..9_usize).prop_map(|(start, count, width)| {
        let store =
            |index: u64| Act::Store { offset: start + index * width as u64, bytes: vec![index as u8; width] };
        (0..count).map(store).collect::<Vec<_>>()
    });
    let some = prop_oneof![prop::collection::vec(act(), 1..20), run];
    prop::collection::vec(some, 1..6).prop_map(|runs| runs.concat())
}

fn entry() -> impl Strategy<Value = ShrimpEntry> {
    let part = || (0..PAGES_IN.len(), 0..3_u32, 1..3_u32);
    (prop_oneof![0..=4096_u32, Just(4090), Just(4096), Just(0)], part(), part()).prop_map(
        |(split, one, two)| out(split, [one, two].map(|(page, mode, node)| (PAGES_IN[page], node, mode))),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..Default::default() })]
    #[test]
    fn only_mapped_stores_arrive_and_in_order(entries in prop::array::uniform3(entry()), acts in acts()) {
        let mut host = Host::new(0);
        for (page, entry) in PAGES_OUT.into_iter().zip(entries) {
            host.set_entry(page, entry);
        }
        // The bytes for each receiver's memory, in the order in which they were stored.
        let mut expected: Vec<(u16, u64, u8)> = Vec::new();
        let mut arrived: Vec<(u16, u64, u8)> = Vec::new();
        let mut collect = |packets: Vec<(u16, u64, Vec<u8>)>| {
            for (to, address, data) in packets {
                prop_assert!(address % PAGE + data.len() as u64 <= PAGE);
                arrived.extend(data.iter().enumerate().map(|(index, byte)| (to, address + index as u64, *byte)));
            }
            Ok(())
        };
        for act in acts {
            match act {
                Act::Store { offset, bytes } => {
                    // A store that crosses a page is seen as two.
                    let (page, within) = (offset / PAGE, offset % PAGE);
                    let here = bytes.len().min((PAGE - within) as usize);
                    for (at, piece) in [(offset, &bytes[..here]), ((page + 1) * PAGE, &bytes[here..])] {
                        if piece.is_empty() || at >= 3 * PAGE { continue; }
                        for (index, byte) in piece.iter().enumerate() {
                            let at = at + index as u64;
                            let entry = entries[(at / PAGE) as usize];
                            let out = entry.out[usize::from(at % PAGE >= u64::from(entry.split_out))];
                            if out.mode != SHRIMP_MODE_NONE {
                                expected.push((out.node as u16, out.page * PAGE + at % PAGE, *byte));
                            }
                        }
                        host.store_seen(10 * PAGE + at, piece);
                    }
                }
                Act::Wait(time) => host.wait(time),
                Act::Send(count) => {
                    for _ in 0..count { host.transmit(); }
                }
            }
        }
        host.wait(1000);
        collect(host.sent_data())?;
        // The order is defined for each receiver separately.
        for node in 1..3 {
            let of = |all: &[(u16, u64, u8)]| all.iter().filter(|byte| byte.0 == node).copied().collect::<Vec<_>>();
            prop_assert_eq!(of(&arrived), of(&expected));
        }
    }
}
