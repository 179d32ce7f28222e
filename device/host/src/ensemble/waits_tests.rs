//! Cards of one process that refuse packets, and senders that wait for them.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hamlyn_snoop::{Machine, PAGE};
use hamlyn_switch::bursts::Policy;
use vfio_user::Client;

use super::Options;
use super::round::Ensemble;
use crate::catalogue::Choice;
use crate::fifo_card::{DESTINATION, GROUPS, MODEL, TAKES, WINDOW};
use crate::rundir::snoop_path;
use crate::station::waits_tests::is_readable;
use crate::station::{CardOptions, Socket};

const PATIENCE: Duration = Duration::from_secs(60);
/// More packets than fit in rings and queues.
const MANY: u64 = 6000;

fn two_cards(folder: &Path) -> Ensemble {
    cards_at(folder, &["0.sock", "1.sock"])
}

fn cards_at(folder: &Path, names: &[&str]) -> Ensemble {
    let card = CardOptions { choice: Choice::of(&MODEL), guest_memory: 0, faults: None };
    let cards = names.iter().map(|name| (card.clone(), folder.join(name))).collect();
    let (cutting, cores) = (Policy::default(), Vec::new());
    let (express, spin, trust_memory) = (None, Duration::ZERO, false);
    let options = Options { cards, paths: 1, mesh: None, express, cutting, cores, spin, trust_memory };
    let mut ensemble = Ensemble::start(&options).unwrap();
    ensemble.stations.iter_mut().for_each(|station| station.set_access_deadline(PATIENCE));
    ensemble
}

/// Runs the loop of the process until it would wait. Fails on a busy loop.
fn rest(ensemble: &mut Ensemble) {
    let stations = ensemble.stations.iter().enumerate();
    let waiters = stations.flat_map(|(at, station)| station.waiters().map(move |waiter| (at, waiter)));
    let readable = waiters.filter(|(_, (_, waiter))| is_readable(waiter.as_ref().unwrap()));
    let readable: Vec<_> = readable.map(|(at, (socket, _))| (at, socket)).collect();
    for (station, socket) in readable {
        ensemble.serve(station, socket);
    }
    ensemble.tick();
    assert!((0..10_000).any(|_| ensemble.work()), "the cards do not come to rest");
}

#[track_caller]
fn until(ensemble: &mut Ensemble, is_so: impl Fn(&Ensemble) -> bool) {
    let start = Instant::now();
    while !is_so(ensemble) {
        assert!(start.elapsed() < PATIENCE, "it does not come: {}", ensemble.counters());
        rest(ensemble);
    }
}

fn done<T: Send + 'static>(ensemble: &mut Ensemble, doing: impl FnOnce() -> T + Send + 'static) -> T {
    let doing = thread::spawn(doing);
    until(ensemble, |_| doing.is_finished());
    doing.join().unwrap()
}

fn packets(ensemble: &Ensemble) -> u64 {
    packets_of(ensemble, 1)
}

fn packets_of(ensemble: &Ensemble, card: usize) -> u64 {
    ensemble.counters()["cards"][card.to_string()]["card"]["packets"].as_u64().unwrap()
}

fn set(mut client: Client, register: u64, value: u64) -> Client {
    client.region_write(0, register, &value.to_le_bytes()).unwrap();
    client
}

#[test]
fn sender_to_blocked_card_sleeps_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let mut ensemble = two_cards(folder.path());
    let sockets = ["0.sock", "1.sock"].map(|name| folder.path().join(name));
    let clients = done(&mut ensemble, move || sockets.map(|socket| Client::new(&socket).unwrap()));
    let [mut sender, receiver] = clients;
    let receiver = done(&mut ensemble, || set(receiver, TAKES, 0));
    let sending = thread::spawn(move || {
        for number in 0..MANY {
            sender = set(sender, WINDOW, number);
        }
        sender
    });
    until(&mut ensemble, |ensemble| ensemble.stations[0].is_held(Socket::Card));
    assert_eq!(packets(&ensemble), 0);
    // All stations sleep, so none is polled.
    assert!(ensemble.work());
    let looks = ensemble.looks();
    assert!(ensemble.work());
    assert_eq!(ensemble.looks(), looks);
    let _receiver = done(&mut ensemble, || set(receiver, TAKES, 1));
    until(&mut ensemble, |_| sending.is_finished());
    rest(&mut ensemble);
    assert_eq!(packets(&ensemble), MANY);
    let _sender = sending.join().unwrap();
}

#[test]
fn stores_go_from_a_plugin_to_another_card() {
    let folder = tempfile::tempdir().unwrap();
    let mut ensemble = two_cards(folder.path());
    let path = snoop_path(&folder.path().join("0.sock"));
    let machine = done(&mut ensemble, move || Machine::connect(&path).unwrap());
    let machine = done(&mut ensemble, move || {
        (0..MANY).for_each(|number| machine.tell(0, PAGE, &number.to_le_bytes()));
        machine
    });
    rest(&mut ensemble);
    assert_eq!(packets(&ensemble), MANY);
    drop(machine);
}

#[test]
fn group_packets_reach_members_before_later_direct_ones() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["0.sock", "1.sock", "2.sock", "3.sock"];
    let mut ensemble = cards_at(folder.path(), &names);
    let sockets = names.map(|name| folder.path().join(name));
    let clients = done(&mut ensemble, move || sockets.map(|socket| Client::new(&socket).unwrap()));
    let [zero, one, two, three] = clients;
    let clients = done(&mut ensemble, move || {
        let members = [set(zero, GROUPS, 2), set(one, GROUPS, 2), set(two, GROUPS, 6)];
        let [zero, one, two] = members;
        let zero = (0..3).fold(set(zero, DESTINATION, 0xff01), |zero, number| set(zero, WINDOW, number));
        [set(set(zero, DESTINATION, 1), WINDOW, 3), one, two, set(three, GROUPS, 4)]
    });
    rest(&mut ensemble);
    assert_eq!([0, 1, 2, 3].map(|card| packets_of(&ensemble, card)), [3, 4, 3, 0]);
    let switch = &ensemble.counters()["switch"]["ports"]["0"];
    assert_eq!((&switch["copied"], &switch["dropped_absent"]), (&6.into(), &0.into()));
    drop(clients);
}
