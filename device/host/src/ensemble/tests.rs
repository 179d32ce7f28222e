//! What a wake-up looks at, counted.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use hamlyn_switch::bursts::Policy;

use super::Options;
use super::round::Ensemble;
use crate::catalogue::{self, Choice};
use crate::station::{CardOptions, Socket};

fn ensemble(folder: &Path, cards: usize) -> Ensemble {
    let card =
        CardOptions { choice: Choice::of(catalogue::default()), guest_memory: CardOptions::GUEST_MEMORY };
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
        trust_memory: false,
    };
    let mut ensemble = Ensemble::start(&options).unwrap();
    let start = Instant::now();
    while !ensemble.work() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{cards} cards that nobody uses do not come to rest"
        );
    }
    ensemble.next_tick();
    ensemble
}

/// How often stations and rings are looked at for one word of a machine.
fn looks(ensemble: &mut Ensemble) -> u64 {
    let before = ensemble.looks();
    ensemble.tick();
    assert!(ensemble.serve(0, Socket::Card));
    while !ensemble.work() {}
    ensemble.wait();
    ensemble.looks() - before
}

#[test]
fn a_card_that_nobody_uses_is_not_looked_at() {
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
