//! Cutting and joining packets at any place changes nothing. The same bytes go to the same
//! addresses, and the same Tripwires fire, as often and in the same order.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::CLAN_NO_EVENTS;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_card_clan::{Options, PACKET_OVERHEAD, cut, join};
use proptest::prelude::*;

use crate::support::*;

/// The stores of a process: address, width and value.
fn stores() -> impl Strategy<Value = Vec<(u64, u8, u64)>> {
    let one = (0_u64..64, 0_u32..4, any::<u64>()).prop_map(|(place, width, value)| {
        let width = 1_u8 << width;
        (place / u64::from(width) * u64::from(width), width, value)
    });
    let run = (0_u64..48, 1_u64..16, any::<u64>()).prop_map(|(start, count, value)| {
        (0..count).map(|n| (start / 8 * 8 + n * 8, 8, value ^ n)).collect()
    });
    prop::collection::vec(prop_oneof![one.prop_map(|store| vec![store]), run], 1..12)
        .prop_map(|stores| stores.concat())
}

/// Cuts and joins packets as `choices` determine.
fn mix(packets: Vec<Vec<u8>>, choices: &[u8]) -> Vec<Vec<u8>> {
    let mut choices = choices.iter().cycle();
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for packet in packets {
        let mut rest = packet;
        loop {
            let room = PACKET_OVERHEAD + usize::from(*choices.next().unwrap());
            match cut(&rest, room) {
                Some((first, second)) => {
                    pieces.push(first);
                    rest = second;
                }
                None => break pieces.push(rest),
            }
        }
    }
    let mut mixed: Vec<Vec<u8>> = Vec::new();
    for piece in pieces {
        let whole = mixed.last().and_then(|last| join(last, &piece, 256));
        match whole.filter(|_| choices.next().unwrap() % 3 != 0) {
            Some(whole) => *mixed.last_mut().unwrap() = whole,
            None => mixed.push(piece),
        }
    }
    mixed
}

proptest! {
    #[test]
    fn cutting_and_joining_change_nothing(
        stores in stores(),
        choices in prop::collection::vec(any::<u8>(), 1..40),
        ranges in prop::collection::vec((0_u64..200, 1_u64..100), 8),
        joins in 0_u32..4,
    ) {
        let outcome = |join: u32, choices: Option<&[u8]>| {
            let options = Options { join, credits: 8192, ..OPTIONS };
            let (mut one, mut other) = (Host::with_options(0, options), Host::with_options(1, options));
            let aperture = other.aperture(3, PAGE, CLAN_APERTURE_WRITE);
            let memory = other.endpoint(1, CLAN_NO_EVENTS);
            one.endpoint(2, CLAN_NO_EVENTS);
            one.window(5, (1, 3), PAGE, 2);
            let fifo = other.fifo();
            let flags = CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_COUNT | CLAN_TRIPWIRE_FIFO;
            for (number, range) in (0..).zip(&ranges) {
                assert_eq!(other.set((1, number), *range, 3, flags, memory), CLAN_TRIPWIRE_OK);
            }
            for (place, width, value) in &stores {
                one.store(WINDOW + place, *width, *value);
            }
            let sent: Vec<_> = one.sent().into_iter().map(|(_, packet)| packet).collect();
            for packet in choices.map_or(sent.clone(), |choices| mix(sent, choices)) {
                other.arrive(0, &packet);
            }
            other.rest();
            let fired: Vec<_> = (0..8).map(|number| other.fired(memory, number)).collect();
            // The order in which the Tripwires fired first: each is in the FIFO once until it is
            // taken.
            let order: Vec<_> = (0..9).map(|record| other.word(fifo + 8 * record)).collect();
            (other.bytes(aperture, 256), fired, order, other.counter("bytes_deposited"))
        };
        prop_assert_eq!(outcome(joins, Some(&choices)), outcome(0, None));
    }
}
