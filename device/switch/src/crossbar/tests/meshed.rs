//! The crossbar with a mesh, on links inside this process.

use std::collections::HashMap;
use std::time::Duration;

use hamlyn_fabric::{Geometry, Link};
use proptest::prelude::*;

use crate::crossbar::tests::{SMALL, attach, send, sums, take, wake_all};
use crate::crossbar::{Crossbar, HostId, Lost};
use crate::mesh::{Port, Shape};

const SHAPE: Shape = Shape { columns: 3, rows: 2 };
const PORTS: u16 = 6;

fn fabric() -> (Crossbar, Vec<Link>) {
    let mut crossbar = Crossbar::new(PORTS, SMALL).with_mesh(Some(SHAPE));
    let cards = (0..PORTS).map(|port| attach(&mut crossbar, Some(HostId(port))).unwrap().1).collect();
    (crossbar, cards)
}

/// Fills the way from one card to another until it accepts no more packets.
fn clog(crossbar: &mut Crossbar, card: &mut Link, destination: u16) -> u64 {
    let mut sent = 0;
    while send(card, destination, &[7; 500]) {
        sent += 1;
        wake_all(crossbar, PORTS);
    }
    sent
}

#[test]
fn packets_come_through_the_links_of_their_route() {
    let (mut crossbar, mut cards) = fabric();
    assert!(send(&mut cards[0], 5, &[1; 40]));
    wake_all(&mut crossbar, PORTS);
    assert_eq!(take(&mut cards[5]), Some((0, vec![1; 40])));
    let links = crossbar.counters().links;
    let places: Vec<_> = links.iter().map(|(place, _)| (place.node, place.port)).collect();
    assert_eq!(places, [(0, Port::In), (0, Port::East), (1, Port::East), (2, Port::South), (5, Port::Out)]);
    assert!(links.iter().all(|(_, link)| (link.packets, link.flits, link.waits) == (1, 4, 0)));
}

#[test]
fn full_card_blocks_only_shared_routes() {
    let (mut crossbar, mut cards) = fabric();
    let sent = clog(&mut crossbar, &mut cards[0], 2);
    // The link from node 1 to node 2 is full of packets for 2.
    assert!(send(&mut cards[1], 5, b"held up") && send(&mut cards[3], 5, b"not"));
    wake_all(&mut crossbar, PORTS);
    assert_eq!((take(&mut cards[5]), take(&mut cards[5])), (Some((3, b"not".to_vec())), None));
    let mut taken = 0;
    while take(&mut cards[2]).is_some() {
        taken += 1;
        wake_all(&mut crossbar, PORTS);
    }
    assert_eq!((taken, take(&mut cards[5])), (sent, Some((1, b"held up".to_vec()))));
    assert_eq!(sums(&crossbar).stalls, 0, "nothing is held beside the mesh");
}

#[test]
fn packets_to_a_detached_card_free_their_route() {
    let (mut crossbar, mut cards) = fabric();
    clog(&mut crossbar, &mut cards[0], 2);
    assert!(send(&mut cards[1], 5, b"held up"));
    wake_all(&mut crossbar, PORTS);
    crossbar.detach(HostId(2));
    wake_all(&mut crossbar, PORTS);
    assert_eq!(take(&mut cards[5]), Some((1, b"held up".to_vec())));
    let sums = sums(&crossbar);
    assert_eq!(sums.packets_in, sums.packets_out + sums.dropped_absent);
    assert!(sums.dropped_absent > 0);
}

#[test]
fn stalled_card_in_mesh_is_detached() {
    let mut crossbar =
        Crossbar::new(PORTS, SMALL).with_mesh(Some(SHAPE)).with_stall_timeout(Duration::from_secs(8));
    let mut cards: Vec<Link> =
        (0..PORTS).map(|port| attach(&mut crossbar, Some(HostId(port))).unwrap().1).collect();
    assert_eq!(crossbar.next_look(), None);
    clog(&mut crossbar, &mut cards[0], 2);
    let look = crossbar.next_look().unwrap();
    for count in 0..20 {
        crossbar.look(look * count);
    }
    assert_eq!(crossbar.take_lost(), [(HostId(2), Lost::Stalled(Duration::from_secs(8)))]);
    wake_all(&mut crossbar, PORTS);
    assert_eq!(crossbar.next_look(), None);
}

/// The card takes a packet now and then, which would be enough without a mesh.
#[test]
fn slow_card_in_mesh_is_detached() {
    // A 64th is 1,024 bytes.
    let geometry = Geometry { capacity: 1 << 16, ..SMALL };
    let mut crossbar =
        Crossbar::new(PORTS, geometry).with_mesh(Some(SHAPE)).with_stall_timeout(Duration::from_secs(8));
    let mut attach = |port| {
        let (card, switch) = Link::pair(geometry).unwrap();
        crossbar.attach(switch.sender, switch.receiver, Some(HostId(port))).unwrap();
        card
    };
    let mut cards: Vec<Link> = (0..PORTS).map(&mut attach).collect();
    let mut seconds = 0..;
    for (length, is_enough) in [(900, true), (4, false)] {
        let mut looks = (0..40).map(|count| {
            while send(&mut cards[0], 2, &vec![7; length]) {
                wake_all(&mut crossbar, PORTS);
            }
            if count % 4 == 0 {
                assert!(take(&mut cards[2]).is_some(), "{length}");
            }
            wake_all(&mut crossbar, PORTS);
            crossbar.look(Duration::from_secs(seconds.next().unwrap()));
            crossbar.take_lost()
        });
        let lost = looks.find(|lost| !lost.is_empty());
        let must = (!is_enough).then(|| vec![(HostId(2), Lost::Stalled(Duration::from_secs(8)))]);
        assert_eq!(lost, must, "{length}");
        while take(&mut cards[2]).is_some() {
            wake_all(&mut crossbar, PORTS);
        }
    }
}

#[test]
fn bypass_only_while_the_mesh_is_empty() {
    let (mut crossbar, mut cards) = fabric();
    assert!(crossbar.pass(HostId(3), HostId(5), 64));
    let east = crossbar.counters().links.into_iter().find(|(place, _)| place.port == Port::East).unwrap();
    assert_eq!((east.0.node, east.1.packets, east.1.flits), (3, 1, 5));
    clog(&mut crossbar, &mut cards[0], 2);
    assert!(!crossbar.pass(HostId(3), HostId(5), 64));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..Default::default() })]
    #[test]
    fn nothing_is_lost_and_nothing_overtakes(
        acts in prop::collection::vec((0..PORTS, 0..PORTS, 4..300_usize, 0..4_u8), 1..300),
    ) {
        let (mut crossbar, mut cards) = fabric();
        let mut sent: HashMap<(u16, u16), Vec<Vec<u8>>> = HashMap::new();
        let mut taken: HashMap<(u16, u16), Vec<Vec<u8>>> = HashMap::new();
        let mut take_all = |cards: &mut Vec<Link>, port: u16| {
            while let Some((source, payload)) = take(&mut cards[usize::from(port)]) {
                taken.entry((source, port)).or_default().push(payload);
            }
        };
        for (number, (source, destination, length, act)) in acts.into_iter().enumerate() {
            match act {
                0 => take_all(&mut cards, destination),
                1 => drop(wake_all(&mut crossbar, PORTS)),
                _ => {
                    let payload = vec![number as u8; length];
                    if send(&mut cards[usize::from(source)], destination, &payload) {
                        sent.entry((source, destination)).or_default().push(payload);
                    }
                }
            }
        }
        for _ in 0..1000 {
            (0..PORTS).for_each(|port| take_all(&mut cards, port));
            if wake_all(&mut crossbar, PORTS) == 0 { break; }
        }
        prop_assert_eq!(taken, sent);
    }
}
