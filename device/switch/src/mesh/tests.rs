use std::collections::{HashMap, VecDeque};

use hamlyn_fabric::Protocol;
use proptest::prelude::*;
use vm_memory::VolatileSlice;

use super::*;

const SHAPE: Shape = Shape { columns: 4, rows: 4 };

fn packet(source: u16, destination: u16, number: u32, length: usize) -> Packet {
    let protocol = Protocol::parse(2).unwrap();
    let header = Header { source: HostId(source), destination: HostId(destination), protocol };
    let mut payload = vec![0; length.max(4)];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    Packet::copy(header, &VolatileSlice::from(&mut payload[..]))
}

fn number_of(packet: &Packet) -> u32 {
    u32::from_le_bytes(packet.payload[..4].try_into().unwrap())
}

fn places(source: u16, destination: u16) -> Vec<(u16, Port)> {
    let route = Route::new(SHAPE, source, destination);
    (0..route.len()).map(|step| Place::at(route.link(step))).map(|place| (place.node, place.port)).collect()
}

#[test]
fn packet_takes_its_row_and_then_a_column() {
    use Port::*;
    assert_eq!(places(1, 11), [(1, In), (1, East), (2, East), (3, South), (7, South), (11, Out)]);
    assert_eq!(places(14, 4), [(14, In), (14, West), (13, West), (12, North), (8, North), (4, Out)]);
    assert_eq!(places(5, 5), [(5, In), (5, Out)]);
}

#[test]
fn waiting_worm_keeps_only_its_own_links() {
    let mut mesh = Mesh::new(SHAPE);
    // Longer than its route: its flits are in all links of the row, and node 3 has no room.
    mesh.inject(packet(0, 3, 1, 400));
    assert_eq!(mesh.run(&[], |_, _| None, |_| Arrival::NoRoom), 0);
    mesh.inject(packet(1, 2, 2, 4));
    mesh.inject(packet(4, 7, 3, 4));
    let mut arrived = Vec::new();
    let mut node = |packet: &mut Packet, has_room: bool| {
        let taken = has_room || packet.header.destination.0 != 3;
        arrived.extend(taken.then(|| number_of(packet)));
        if taken { Arrival::Taken } else { Arrival::NoRoom }
    };
    mesh.run(&[], |_, _| None, |packet| node(packet, false));
    assert!(!mesh.can_move() && !mesh.is_empty() && !mesh.takes_from(HostId(0)));
    mesh.stir();
    mesh.run(&[], |_, _| None, |packet| node(packet, true));
    assert_eq!(arrived, [3, 1, 2], "the other row is free");
    assert!(mesh.is_empty() && mesh.takes_from(HostId(0)));
    let east: u64 =
        mesh.links().filter(|(place, _)| place.port == Port::East).map(|(_, link)| link.packets).sum();
    assert_eq!(east, 3 + 1 + 3);
    let row = mesh.links().find(|(place, _)| (place.node, place.port) == (1, Port::East)).unwrap().1;
    assert_eq!((row.packets, row.flits, row.waits > 0), (2, 26 + 2, true));
}

#[test]
fn a_shape_is_columns_and_rows() {
    assert_eq!("4x3".parse(), Ok(Shape { columns: 4, rows: 3 }));
    assert_eq!(SHAPE.to_string(), "4x4");
    for text in ["", "4", "4x", "x4", "0x4", "4x257", "4x4x4", "-1x4"] {
        let error = text.parse::<Shape>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("4x4"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..Default::default() })]
    /// For any packets, and whenever nodes have room: nothing is lost, nothing overtakes, and
    /// nothing waits forever.
    #[test]
    fn all_arrive_in_order_for_each_pair(
        sides in (1..6_u16, 1..6_u16),
        packets in prop::collection::vec((any::<u16>(), any::<u16>(), 4..600_usize), 1..120),
        rooms in prop::collection::vec(any::<bool>(), 64),
    ) {
        let shape = Shape { columns: sides.0, rows: sides.1 };
        let nodes = shape.nodes() as u16;
        let mut mesh = Mesh::new(shape);
        let mut to_send: HashMap<u16, VecDeque<Packet>> = HashMap::new();
        for (number, (source, destination, length)) in packets.iter().enumerate() {
            let (source, destination) = (source % nodes, destination % nodes);
            to_send.entry(source).or_default().push_back(packet(source, destination, number as u32, *length));
        }
        let mut last: HashMap<(u16, u16), u32> = HashMap::new();
        let (mut arrived, mut asked) = (0, 0);
        for round in 0.. {
            prop_assert!(round < 100_000, "it stands");
            for (source, queue) in &mut to_send {
                if mesh.takes_from(HostId(*source)) {
                    queue.pop_front().into_iter().for_each(|packet| mesh.inject(packet));
                }
            }
            mesh.stir();
            let mut overtaken = false;
            arrived += mesh.run(&[], |_, _| None, |packet| {
                asked += 1;
                if !rooms[asked % rooms.len()] && asked % 97 != 0 {
                    return Arrival::NoRoom;
                }
                let pair = (packet.header.source.0, packet.header.destination.0);
                let number = number_of(packet);
                overtaken |= last.insert(pair, number).is_some_and(|last| last > number);
                Arrival::Taken
            });
            prop_assert!(!overtaken);
            if mesh.is_empty() && to_send.values().all(VecDeque::is_empty) {
                break;
            }
        }
        prop_assert_eq!(arrived, packets.len());
        prop_assert!(mesh.links.iter().all(|link| link.owner.is_none() && link.waiting.is_empty()));
    }
}
