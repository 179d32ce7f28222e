//! Which files of express memory each card is passed.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

use hamlyn_fabric::express::Holding;
use hamlyn_fabric::{Attached, HostId, Request, connect};
use hamlyn_switch::{Form, Options, Part, Switch};

use crate::kit::{PATIENCE, Running, request, small};

fn start(form: Form) -> Running {
    let part = Part::new(Part::LEAST).unwrap();
    Running::start(Options { ports: 4, express: Some((form, part)), ..small() })
}

fn attach(running: &Running, host: u16, express: bool) -> Attached {
    let request = Request { express, ..request(Some(host)) };
    loop {
        // The switch may notice late that a card has left.
        match connect(running.path(), request, PATIENCE) {
            Ok(attached) => return attached,
            Err(error) => assert!(error.to_string().contains("is taken"), "{error}"),
        }
    }
}

/// Returns the inode numbers of the files, each with the peer that shares it.
fn files(attached: &Attached) -> Vec<(Option<HostId>, u64)> {
    let inode = |holding: &Holding| -> Vec<_> {
        let portions = holding.portions().iter();
        portions.map(|portion| (portion.peer(), portion.file().metadata().unwrap().ino())).collect()
    };
    attached.express.as_ref().map(inode).unwrap_or_default()
}

#[test]
fn isolated_card_gets_only_its_own_pairs_files() {
    let running = start(Form::Isolated);
    let cards = [0, 1, 2].map(|host| attach(&running, host, true));
    let found = cards.each_ref().map(files);
    for (host, found) in (0..).zip(&found) {
        let peers: Vec<_> = found.iter().map(|(peer, _)| peer.unwrap().0).collect();
        assert_eq!(peers, (0..4).filter(|peer| *peer != host).collect::<Vec<u16>>());
    }
    let sets = found.each_ref().map(|found| found.iter().map(|(_, file)| *file).collect::<BTreeSet<u64>>());
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let common: Vec<_> = sets[one].intersection(&sets[other]).collect();
        assert_eq!(common.len(), 1, "{one} and {other}: {found:?}");
        assert!(!sets[3 - one - other].contains(common[0]), "the third has it as well: {found:?}");
    }
    // A card that attaches again gets the same files, because its machine may have them mapped. A
    // card that does not ask gets none.
    let [zero, one, two] = cards;
    drop((zero, one));
    assert_eq!(files(&attach(&running, 0, true)), found[0]);
    assert!(attach(&running, 1, false).express.is_none());
    assert_eq!(files(&two), found[2]);
}

#[test]
fn shared_memory_is_one_file_for_all_cards() {
    let running = start(Form::Shared);
    let found = [0, 1, 2].map(|host| files(&attach(&running, host, true)));
    assert!(found[0].len() == 1 && found[0][0].0.is_none(), "{found:?}");
    assert!(found.iter().all(|files| *files == found[0]), "{found:?}");
}

#[test]
fn express_memory_is_limited_to_64_hosts() {
    for form in [Form::Shared, Form::Isolated] {
        let options = |ports| Options { ports, express: Some((form, Part::default())), ..small() };
        let error = Switch::new(options(65)).unwrap_err().to_string();
        assert_eq!(error, "express memory for 65 hosts is not possible (limit 1 to 64)");
    }
    let part = Part::default();
    let running = Running::start(Options { ports: 64, express: Some((Form::Isolated, part)), ..small() });
    let [one, other] = [0, 63].map(|host| files(&attach(&running, host, true)));
    assert_eq!((one.len(), other.len()), (63, 63));
    assert_eq!(one[62].1, other[0].1);
}
