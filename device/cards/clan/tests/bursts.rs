//! Cutting and joining packets (section 2.2): whatever is done to packets in flight, the same bytes
//! go to the same addresses, in order.

use hamlyn_card_clan::{PACKET_OVERHEAD, cut, join};
use proptest::prelude::*;
use proptest::sample::Index;

/// Place of the checksum, which covers the whole packet with 0 in this place.
const CHECKSUM: std::ops::Range<usize> = 20..24;
const WRITE: u8 = 1;
const READ: u8 = 2;
const DATA: u8 = 3;

/// Returns a packet of this kind for this address.
fn packet(kind: u8, tag: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 7, 0];
    bytes.extend_from_slice(&tag.to_le_bytes());
    bytes.extend_from_slice(&0x1234_5678_9abc_def0_u64.to_le_bytes());
    bytes.extend_from_slice(&42_u32.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&offset.to_le_bytes());
    bytes.extend_from_slice(data);
    seal(&mut bytes);
    bytes
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut bytes = bytes.to_vec();
    bytes[CHECKSUM].fill(0);
    crc32fast::hash(&bytes).to_le_bytes()
}

fn seal(bytes: &mut [u8]) {
    let sum = checksum(bytes);
    bytes[CHECKSUM].copy_from_slice(&sum);
}

/// Returns what the packets do at the receiver: address by address, in order. Checks that each
/// packet is whole, and that its header is unchanged except for the address.
fn accesses(packets: &[Vec<u8>], like: &[u8]) -> Vec<(u64, u8)> {
    let of_one = |bytes: &Vec<u8>| {
        assert_eq!(bytes[CHECKSUM], checksum(bytes), "a checksum is wrong");
        assert_eq!(bytes[..CHECKSUM.start], like[..CHECKSUM.start]);
        let offset = u64::from_le_bytes(bytes[24..32].try_into().unwrap());
        assert!(bytes.len() > PACKET_OVERHEAD, "a part is empty");
        (offset..).zip(bytes[PACKET_OVERHEAD..].to_vec())
    };
    packets.iter().flat_map(of_one).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Cut(Index, usize),
    Join(Index, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cut = (any::<Index>(), 0..2000usize).prop_map(|(place, most)| Step::Cut(place, most));
    let join = (any::<Index>(), 0..3000usize).prop_map(|(place, most)| Step::Join(place, most));
    proptest::collection::vec(prop_oneof![cut, join], 1..80)
}

proptest! {
    #[test]
    fn cuts_and_joins_keep_bytes_addresses_and_order(
        is_answer: bool,
        start in 0..1_000_000u64,
        bursts in proptest::collection::vec((0..2u64, 1..1500usize), 1..6),
        steps in steps(),
    ) {
        let (kind, mut offset) = (if is_answer { DATA } else { WRITE }, start);
        let mut packets = Vec::new();
        for (gap, length) in bursts {
            // Some follow each other, some do not.
            offset += 8 * gap;
            let data: Vec<u8> = (offset..).take(length).map(|place| (place * 7) as u8).collect();
            packets.push(packet(kind, 3, offset, &data));
            offset += length as u64;
        }
        let like = packets[0].clone();
        let expected = accesses(&packets, &like);
        for step in steps {
            match step {
                Step::Cut(place, most) => {
                    let place = place.index(packets.len());
                    if let Some((first, second)) = cut(&packets[place], most) {
                        prop_assert!(first.len() <= most && second.len() < packets[place].len());
                        packets.splice(place..=place, [first, second]);
                    }
                }
                Step::Join(place, most) => {
                    let place = place.index(packets.len());
                    let Some(next) = packets.get(place + 1) else { continue };
                    if let Some(whole) = join(&packets[place], next, most) {
                        prop_assert!(whole.len() <= most);
                        packets.splice(place..=place + 1, [whole]);
                    }
                }
            }
            prop_assert!(accesses(&packets, &like) == expected);
        }
    }

    /// Invalid packets cause no panic, and are neither cut nor joined.
    #[test]
    fn invalid_packets_are_left_unchanged(bytes in proptest::collection::vec(any::<u8>(), 0..200), most in 0..200usize) {
        let sound = bytes.len() >= PACKET_OVERHEAD && bytes[CHECKSUM] == checksum(&bytes);
        prop_assert!(sound || cut(&bytes, most).is_none() && join(&bytes, &bytes, most).is_none());
    }
}

#[test]
fn packet_can_be_cut_between_any_words() {
    let data: Vec<u8> = (0..80).collect();
    for start in [0, 3, 8] {
        let whole = packet(WRITE, 0, start, &data);
        for most in PACKET_OVERHEAD + 8..whole.len() {
            let (first, second) = cut(&whole, most).unwrap();
            assert!(first.len() <= most && first.len() + 8 > most);
            assert_eq!(join(&first, &second, whole.len()), Some(whole.clone()));
            assert_eq!(join(&first, &second, whole.len() - 1), None);
            assert_eq!(join(&second, &first, 1000), None);
        }
        assert_eq!(cut(&whole, whole.len()), None);
        assert_eq!(cut(&whole, PACKET_OVERHEAD), None);
    }
}

#[test]
fn differing_or_damaged_packets_are_not_joined() {
    let one = packet(WRITE, 0, 0, &[1; 64]);
    let next = packet(WRITE, 0, 64, &[2; 64]);
    assert!(join(&one, &next, 1000).is_some());
    assert_eq!(join(&one, &packet(WRITE, 1, 64, &[2; 64]), 1000), None);
    assert_eq!(join(&one, &packet(DATA, 0, 64, &[2; 64]), 1000), None);
    assert_eq!(join(&one, &packet(WRITE, 0, 72, &[2; 64]), 1000), None);
    assert_eq!(cut(&packet(READ, 0, 0, &[1; 64]), 64), None);
    let mut end = packet(WRITE, 0, u64::MAX - 63, &[1; 64]);
    assert_eq!(join(&end, &packet(WRITE, 0, 0, &[2; 64]), 1000), None, "addresses do not begin again");
    for place in [0, 5, 30, PACKET_OVERHEAD] {
        let mut damaged = next.clone();
        damaged[place] ^= 4;
        assert_eq!((cut(&damaged, 64), join(&one, &damaged, 1000)), (None, None));
    }
    end.truncate(PACKET_OVERHEAD - 1);
    assert_eq!((cut(&end, 8), join(&end, &next, 1000)), (None, None));
}
