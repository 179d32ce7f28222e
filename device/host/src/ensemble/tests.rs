//! Counts the stations that a wake-up polls.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use hamlyn_switch::bursts::Policy;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use serde_json::Value;
use vfio_user::Client;

use super::Options;
use super::round::Ensemble;
use crate::catalogue::{self, Choice};
use crate::station::{CardOptions, Socket};

/// Turns within which unused cards come to rest. They take a few for each card.
const TURNS: usize = 10_000;

fn ensemble(folder: &Path, cards: usize) -> Ensemble {
    ensemble_that(folder, cards, false)
}

fn ensemble_that(folder: &Path, cards: usize, trust_memory: bool) -> Ensemble {
    let card = CardOptions {
        choice: Choice::of(catalogue::default()),
        guest_memory: CardOptions::GUEST_MEMORY,
        faults: None,
    };
    let cards_at = (0..cards).map(|number| (card.clone(), folder.join(format!("{number}.sock")))).collect();
    let (cutting, cores) = (Policy::default(), Vec::new());
    let options = Options {
        cards: cards_at,
        paths: 1,
        mesh: None,
        cutting,
        express: None,
        cores,
        spin: Duration::ZERO,
        trust_memory,
    };
    let mut ensemble = Ensemble::start(&options).unwrap();
    let rests = (0..TURNS).any(|_| ensemble.work());
    assert!(rests, "{cards} unused cards do not come to rest within {TURNS} turns");
    ensemble.next_tick();
    ensemble
}

/// Returns how often stations and rings are polled for one message of a machine.
fn looks(ensemble: &mut Ensemble) -> u64 {
    let before = ensemble.looks();
    ensemble.tick();
    assert!(ensemble.serve(0, Socket::Card));
    while !ensemble.work() {}
    ensemble.wait();
    ensemble.looks() - before
}

#[test]
fn unused_cards_are_not_polled() {
    let folder = tempfile::tempdir().unwrap();
    let counts = [2, 8, 64].map(|cards| {
        let mut ensemble = ensemble(folder.path(), cards);
        let _machine = UnixStream::connect(folder.path().join("0.sock")).unwrap();
        [looks(&mut ensemble), looks(&mut ensemble), looks(&mut ensemble)]
    });
    assert!(counts[0].iter().all(|looks| *looks > 0), "{counts:?}");
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0], counts[2]);
}

/// Returns the number of refused messages of a machine that maps memory without seals, which it
/// could truncate.
fn refused_of_unsealed_memory(trust_memory: bool) -> Value {
    const LENGTH: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let mut ensemble = ensemble_that(folder.path(), 1, trust_memory);
    let socket = folder.path().join("0.sock");
    let machine = thread::spawn(move || {
        let memory = memfd_create("machine", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, LENGTH).unwrap();
        let mut client = Client::new(&socket).unwrap();
        client.dma_map(0, 0, LENGTH, memory.as_raw_fd()).unwrap();
        client
    });
    while !machine.is_finished() {
        ensemble.serve(0, Socket::Card);
        ensemble.work();
    }
    machine.join().unwrap();
    ensemble.counters()["cards"]["0"]["bus"]["refused"].clone()
}

#[test]
fn unsealed_memory_is_taken_if_trusted() {
    assert_eq!(refused_of_unsealed_memory(false), 1);
    assert_eq!(refused_of_unsealed_memory(true), 0);
}
