//! What a wake-up looks at, counted.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Parser;

use super::FabricArgs;
use super::round::Fabric;
use crate::card::Socket;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    fabric: FabricArgs,
}

fn fabric(folder: &Path, cards: usize) -> Fabric {
    let sockets = (0..cards).map(|card| folder.join(format!("{card}.sock")).display().to_string());
    let words = ["fabric".to_owned()]
        .into_iter()
        .chain(sockets.flat_map(|socket| ["--socket".to_owned(), socket]))
        .collect::<Vec<_>>();
    let mut fabric = Fabric::start(&Program::try_parse_from(words).unwrap().fabric).unwrap();
    let start = Instant::now();
    while !fabric.work() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{cards} cards that nobody uses do not come to rest"
        );
    }
    fabric.next_tick();
    fabric
}

/// How often stations and rings are looked at for one word of a machine.
fn looks(fabric: &mut Fabric) -> u64 {
    let before = fabric.looks();
    fabric.tick();
    assert!(fabric.serve(0, Socket::Card));
    while !fabric.work() {}
    fabric.wait();
    fabric.looks() - before
}

#[test]
fn a_card_that_nobody_uses_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let counts = [2, 8, 64].map(|cards| {
        let mut fabric = fabric(folder.path(), cards);
        let _machine = UnixStream::connect(folder.path().join("0.sock")).unwrap();
        [looks(&mut fabric), looks(&mut fabric), looks(&mut fabric)]
    });
    assert!(counts[0].iter().all(|looks| *looks > 0), "{counts:?}");
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0], counts[2]);
}
