//! The switch through its socket: well-behaved and faulty cards on other threads and in other
//! processes.

use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::{Card, Mill, PATIENCE, Running, request};
use hamlyn_fabric::{ConnectError, Geometry, HostId, Protocol, Request, Traffic, connect};
use hamlyn_switch::{Options, Switch, SwitchCounters};
use proptest::prelude::*;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use rustix::io::pwrite;

fn refusal(result: Result<hamlyn_fabric::Attached, ConnectError>) -> String {
    match result {
        Err(ConnectError::Refused { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn attach_reports_the_number_of_ports() {
    let running = Running::start(Options { ports: 3, ..crate::kit::small() });
    assert_eq!(connect(running.path(), request(None), PATIENCE).unwrap().ports, 3);
}

/// Sends from every card to every card, and returns the switch's counters.
fn all_to_all(paths: u16) -> SwitchCounters {
    const PORTS: usize = 64;
    const ROUNDS: u64 = 6;
    let running = Running::start(Options { ports: PORTS as u16, paths, ..crate::kit::small() });
    // Eight threads with eight cards each. No card sends before all are attached, because its
    // packets would be dropped.
    let mills: Vec<_> = (1..=8)
        .map(|seed| {
            let cards = (0..8).map(|_| Card::attach(&running, None)).collect();
            let random = SplitMix64::seed_from_u64(seed);
            Mill { cards, ports: PORTS, rounds: ROUNDS, ordered: paths == 1, random }
        })
        .collect();
    let threads: Vec<_> = mills.into_iter().map(|mill| std::thread::spawn(move || mill.run())).collect();
    // No card leaves before all cards have received everything.
    let cards: Vec<Card> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let counters = running.stop();
    let total = (PORTS * PORTS) as u64 * ROUNDS;
    assert_eq!(counters.ports.iter().map(|port| port.packets_in).sum::<u64>(), total);
    assert_eq!(counters.ports.iter().map(|port| port.packets_out).sum::<u64>(), total);
    for (host, port) in counters.ports.iter().enumerate() {
        assert_eq!(
            (port.packets_in, port.packets_out),
            (PORTS as u64 * ROUNDS, PORTS as u64 * ROUNDS),
            "{host}"
        );
        assert_eq!((port.dropped_absent, port.dropped_malformed), (0, 0), "{host}");
        assert!(port.attached);
    }
    assert_eq!(cards.len(), PORTS);
    assert_eq!(
        counters.ports.iter().map(|port| port.bytes_out).sum::<u64>(),
        cards.iter().map(|card| card.bytes_received).sum::<u64>()
    );
    counters
}

#[test]
fn all_to_all_on_64_ports() {
    let counters = all_to_all(1);
    assert_eq!(counters.ports.iter().map(|port| port.overtaken).sum::<u64>(), 0);
}

#[test]
fn all_to_all_on_64_ports_with_paths() {
    let counters = all_to_all(4);
    assert!(counters.ports.iter().map(|port| port.overtaken).sum::<u64>() > 0);
}

fn stall(paths: u16) {
    let running = Running::start(Options { paths, ..crate::kit::small() });
    let (mut sender, mut receiver) = (Card::attach(&running, None), Card::attach(&running, None));
    let (mut other, mut third) = (Card::attach(&running, None), Card::attach(&running, None));
    let (mut sent, begun) = (0u64, Instant::now());
    let is_long = |sent: u64| sent * 4000 > crate::kit::small().geometry.capacity as u64;
    // The switch may still be making room, so only a ring that stays full counts as full.
    loop {
        if sender.send(receiver.host, &sent.to_le_bytes(), 4000) {
            sent += 1;
        } else if !sender.room_comes(Duration::from_secs(2)) && (is_long(sent) || begun.elapsed() > PATIENCE)
        {
            break;
        }
    }
    // Both rings on the way are full.
    assert!(is_long(sent), "{sent}");
    other.send(third.host, b"another way", 11);
    assert_eq!(third.receive().1, b"another way");
    let mut numbers = Vec::new();
    for _ in 0..sent {
        let (source, payload) = receiver.receive();
        assert_eq!((source, payload.len()), (sender.host, 4000));
        numbers.push(u64::from_le_bytes(payload[..8].try_into().unwrap()));
    }
    assert_eq!(numbers.is_sorted(), paths == 1);
    numbers.sort();
    assert!(numbers.into_iter().eq(0..sent));
    assert!(sender.send(receiver.host, b"go on", 5));
    assert_eq!(receiver.receive().1, b"go on");
    let counters = running.stop();
    assert!(counters.ports[sender.host.index()].stalls > 0);
    assert_eq!(counters.ports[receiver.host.index()].packets_out, sent + 1);
}

#[test]
fn stalled_receiver_stops_its_sender_without_loss() {
    stall(1);
    stall(4);
}

#[test]
fn source_is_the_port_not_the_header() {
    let running = Running::start(crate::kit::small());
    let (mut liar, mut receiver) = (Card::attach(&running, Some(5)), Card::attach(&running, Some(9)));
    assert_eq!((liar.host, receiver.host), (HostId(5), HostId(9)));
    liar.claim = HostId(9);
    assert!(liar.send(HostId(9), b"I am you", 8));
    assert_eq!(receiver.receive(), (HostId(5), b"I am you".to_vec()));
}

/// Runs only as a child of the next test: a card that takes packets until it is killed.
#[test]
fn child_card() {
    let Ok(path) = std::env::var("HAMLYN_TEST_SWITCH") else { return };
    let mut card = Card::connect(path.as_ref(), Some(3));
    let mut announced = false;
    loop {
        card.receive();
        if !announced {
            assert!(card.send(HostId(0), b"alive", 5));
            announced = true;
        }
    }
}

fn spawn_child(running: &Running) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sockets::child_card"])
        .env("HAMLYN_TEST_SWITCH", running.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn kill_in_traffic(paths: u16) {
    let running = Running::start(Options { paths, ..crate::kit::small() });
    let (mut sender, mut other) = (Card::attach(&running, Some(0)), Card::attach(&running, Some(1)));
    for _ in 0..2 {
        let mut child = spawn_child(&running);
        // The child is attached when its first packet arrives.
        while !sender.has_packet(Duration::from_millis(1)) {
            sender.send_when_room(HostId(3), &[1; 100]);
        }
        assert_eq!(sender.receive(), (HostId(3), b"alive".to_vec()));
        for _ in 0..200 {
            sender.send_when_room(HostId(3), &[2; 3000]);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for _ in 0..200 {
            sender.send_when_room(HostId(3), &[3; 3000]);
        }
        sender.send_when_room(HostId(1), b"alive too");
        assert_eq!(other.receive(), (HostId(0), b"alive too".to_vec()));
        // The port is free again.
        let again = Card::attach(&running, Some(3));
        drop(again);
    }
    let counters = running.stop();
    let (from, to) = (counters.ports[0], counters.ports[3]);
    assert!(from.dropped_absent > 0);
    assert_eq!(from.packets_in, from.dropped_absent + to.packets_out + counters.ports[1].packets_out);
}

#[test]
fn killed_card_does_not_harm_others() {
    kill_in_traffic(1);
    kill_in_traffic(4);
}

#[test]
fn detach_and_switch_stop_are_noticed() {
    let running = Running::start(Options { ports: 1, ..crate::kit::small() });
    let card = Card::attach(&running, None);
    let reason = refusal(connect(running.path(), request(None), PATIENCE));
    assert!(reason.contains("all 1 are taken, or kept for other users"), "{reason}");
    drop(card);
    let card = Card::attach(&running, Some(0));
    assert!(!card.is_cut_off(Duration::ZERO));
    assert!(running.stop().ports[0].attached);
    assert!(card.is_cut_off(PATIENCE));
}

#[test]
fn refusals_say_why() {
    let running = Running::start(crate::kit::small());
    let _card = Card::attach(&running, Some(2));
    assert_eq!(refusal(connect(running.path(), request(Some(2)), PATIENCE)), "port 2 is taken");
    assert_eq!(
        refusal(connect(running.path(), request(Some(64)), PATIENCE)),
        "port 64 is out of range (limit 64)"
    );
}

#[test]
fn unsuitable_traffic_is_refused_at_attach() {
    let running = Running::start(Options { paths: 2, ..crate::kit::small() });
    let one = Card::attach(&running, None);
    let other = |number, ordered| {
        let traffic = Traffic { protocol: Protocol::parse(number).unwrap(), ordered };
        refusal(connect(running.path(), Request { host: None, traffic, express: false }, PATIENCE))
    };
    let there = one.host;
    let strange = format!("its packets are of protocol 9, those of the card at port {there} of protocol 1: ");
    assert!(other(9, false).starts_with(&strange));
    assert!(other(1, true).starts_with("its packets must keep their order, and with 2 paths they would not"));
    drop(one);
    // After the last card has left, the switch accepts any protocol.
    let traffic = Traffic { protocol: Protocol::parse(9).unwrap(), ordered: false };
    while connect(running.path(), Request { host: None, traffic, express: false }, PATIENCE).is_err() {
        std::thread::yield_now();
    }
    running.stop();
}

#[test]
fn malformed_requests_are_refused() {
    let running = Running::start(crate::kit::small());
    let cases: [(&[u8], &str); 9] = [
        (b"x", "first message of 1 bytes is not a card's"),
        (b"HMLN\x06\x00\xff\xff\x01\x00\x00", "first message of 11 bytes"),
        (b"NOPE\x04\x00\xff\xff\x01\x00\x00\x00", "first message of 12 bytes"),
        (b"HMLN\x02\x00\xff\xff", "version 2 of attaching is not known (this switch has 6)"),
        (b"HMLN\x06\x00\xff\xff\x00\x00\x00\x00", "protocol 0 belongs to no card (must be 1 to 255)"),
        (b"HMLN\x06\x00\xff\xff\x01\x02\x00\x00", "the client's need for order is 2 (limit 1)"),
        (b"HMLN\x06\x00\xff\xff\x01\x01\x02\x00", "the client's wish for express memory is 2 (limit 1)"),
        (b"HMLN\x06\x00\xff\xff\x01\x01\x00\x01", "the client's reserved field is 1 (limit 0)"),
        (&[0x5a; 70_000], "first message of 13 bytes"),
    ];
    for (message, reason) in cases {
        let answer = crate::kit::ask(&running, message);
        assert!(answer.contains(reason), "{answer:?}");
    }
    // More silent clients than there are places, and one that leaves in the middle.
    let silent: Vec<_> = (0..70).map(|_| crate::kit::raw_connect(&running)).collect();
    drop(crate::kit::raw_connect(&running));
    let answer = crate::kit::listen_to(&silent[0]);
    assert!(answer.contains("others wait, and nothing was said yet"), "{answer:?}");
    let timeout = Duration::from_millis(300);
    let hasty = Running::start(Options { attach_timeout: timeout, ..crate::kit::small() });
    let answer = crate::kit::listen_to(&crate::kit::raw_connect(&hasty));
    assert!(answer.contains("nothing was said for 300ms"), "{answer:?}");
    drop(silent);
    let mut card = Card::attach(&running, None);
    let host = card.host;
    assert!(card.send(host, b"fine", 4));
    assert_eq!(card.receive().1, b"fine");
}

#[test]
fn misbehaving_card_loses_only_its_own_port() {
    let running = Running::start(crate::kit::small());
    let (mut good, mut peer) = (Card::attach(&running, Some(0)), Card::attach(&running, Some(1)));
    let far = (crate::kit::small().geometry.capacity as u64 + 16).to_le_bytes();
    for scribble in [true, false] {
        let (socket, descriptors) = crate::kit::raw_card(&running, 2);
        if scribble {
            // The first word of the shared memory is the card's producer position.
            pwrite(&descriptors[0], &far, 0).unwrap();
            // A polling switch may have hung up already.
            let rung = rustix::net::send(&socket, b"!", rustix::net::SendFlags::NOSIGNAL);
            assert!(matches!(rung, Ok(1) | Err(rustix::io::Errno::PIPE)), "{rung:?}");
        } else {
            rustix::net::send(&socket, b"hello?", rustix::net::SendFlags::empty()).unwrap();
        }
        assert!(crate::kit::hangs_up(&socket));
        good.send_when_room(HostId(1), b"untouched");
        assert_eq!(peer.receive(), (HostId(0), b"untouched".to_vec()));
    }
    assert!(!running.stop().ports[2].attached);
}

#[test]
fn only_a_dead_switchs_socket_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("switch");
    // Leaves a socket file without a listener. The shutdown also covers a copy that a child process
    // may briefly have inherited.
    let dead = std::os::unix::net::UnixListener::bind(&path).unwrap();
    rustix::net::shutdown(&dead, rustix::net::Shutdown::Both).unwrap();
    drop(dead);
    let switch = Switch::bind(&path, crate::kit::small()).unwrap();
    let error = Switch::bind(&path, crate::kit::small()).unwrap_err();
    assert!(error.to_string().contains("is in use by another process"), "{error}");
    drop(switch);
    assert!(!path.exists());
}

#[test]
fn options_out_of_range_are_refused() {
    for ports in [0, 1025] {
        let error = Switch::new(Options { ports, ..crate::kit::small() }).unwrap_err();
        assert_eq!(error.to_string(), format!("a switch of {ports} ports is not possible (limit 1 to 1024)"));
    }
    for paths in [0, 17] {
        let error = Switch::new(Options { paths, ..crate::kit::small() }).unwrap_err();
        assert_eq!(error.to_string(), format!("{paths} paths to an output are not possible (limit 1 to 16)"));
    }
}

#[test]
fn a_spinning_switch_forwards_too() {
    let running = Running::start(Options { spin: Duration::from_millis(2), ..crate::kit::small() });
    let (mut one, mut two) = (Card::attach(&running, None), Card::attach(&running, None));
    for number in 0..200u8 {
        assert!(one.send(two.host, &[number], 1));
        assert_eq!(two.receive(), (one.host, vec![number]));
    }
}

#[test]
fn switch_works_in_one_process_without_socket() {
    let mut switch = Switch::new(crate::kit::small()).unwrap();
    let (one, link) = switch.open_port(request(None)).unwrap();
    let mut one = Card::new(one, link);
    let (two, link) = switch.open_port(request(None)).unwrap();
    let mut two = Card::new(two, link);
    assert!(one.send(two.host, b"no system call", 14));
    while switch.process().unwrap() > 0 || !switch.sleep() {}
    assert_eq!(two.receive(), (one.host, b"no system call".to_vec()));
    assert!(two.send(one.host, b"the bell rings", 14));
    while switch.process().unwrap() > 0 || !switch.sleep() {}
    assert_eq!(one.receive(), (two.host, b"the bell rings".to_vec()));
}

const CARDS: usize = 3;

/// Cards and a switch in one thread. A switch that sleeps gets its turn only when it is woken.
struct Fabric {
    switch: Switch,
    asleep: bool,
    cards: Vec<Card>,
}

impl Fabric {
    fn new(paths: u16, seed: u64) -> Fabric {
        let geometry = Geometry { capacity: 4096, max_packet: 1000 };
        let mut switch = Switch::new(Options { paths, seed, geometry, ..crate::kit::small() }).unwrap();
        let open = |_| {
            let (host, link) = switch.open_port(request(None)).unwrap();
            Card::new(host, link)
        };
        let cards = (0..CARDS).map(open).collect();
        Fabric { switch, asleep: false, cards }
    }

    /// Runs the switch's turn as its own loop does. Returns `false` if it is still asleep.
    fn turn(&mut self) -> bool {
        if self.asleep && !crate::kit::readable(&[self.switch.as_fd()], Duration::ZERO) {
            return false;
        }
        self.asleep = self.switch.process().unwrap() == 0 && self.switch.sleep();
        true
    }

    fn take_all(&mut self) -> usize {
        self.cards.iter_mut().map(|card| std::iter::from_fn(|| card.take()).count()).sum()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send { from: usize, to: u16, length: usize },
    Take { at: usize },
    Switch,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..CARDS, 0..CARDS as u16, 0..=1000usize)
            .prop_map(|(from, to, length)| Step::Send { from, to, length }),
        1 => (0..CARDS).prop_map(|at| Step::Take { at }),
        2 => Just(Step::Switch),
    ]
}

proptest! {
    /// A sleeping side is woken.
    #[test]
    fn no_packet_is_left_when_all_sleep(
        paths in 1..=16u16,
        seed: u64,
        steps in proptest::collection::vec(step(), 1..300),
    ) {
        let mut fabric = Fabric::new(paths, seed);
        let (mut sent, mut taken) = (0, 0);
        for step in steps {
            match step {
                Step::Send { from, to, length } => {
                    sent += usize::from(fabric.cards[from].send(HostId(to), b"", length));
                }
                Step::Take { at } => taken += usize::from(fabric.cards[at].take().is_some()),
                Step::Switch => drop(fabric.turn()),
            }
        }
        loop {
            let came = fabric.take_all();
            taken += came;
            if !fabric.turn() && came == 0 {
                break;
            }
        }
        prop_assert_eq!(taken, sent);
    }
}
