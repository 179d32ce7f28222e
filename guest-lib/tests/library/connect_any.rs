//! Connecting to a name on any host that has it (section 6.3).

use std::thread;
use std::time::Duration;

use crate::fake::Fake;
use crate::fake::express::OTHER;
use hamlyn::protocol::stream::{StreamListener, StreamPair};
use hamlyn::{Card, EndReason, Error, Manager};
use hamlyn_abi::uapi::*;

const PATIENCE: Duration = Duration::from_secs(10);

/// Answers once all of `hosts` were asked.
fn answer(fake: &Fake, hosts: &[u32], answers: &[(u32, u32)]) {
    while hosts.iter().any(|host| fake.asked(*host).1 == 0) {
        std::thread::yield_now();
    }
    answers.iter().for_each(|(host, reason)| fake.answer(*host, *reason));
}

#[test]
fn first_accepting_host_wins_without_waiting_for_others() {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let connection = std::thread::scope(|scope| {
        scope.spawn(|| answer(&fake, &[1, 2, 3], &[(1, ULN_END_NO_NAME), (3, 0)]));
        // Host 2 never answers.
        card.connect_any(1..=3, "store", b"hello").unwrap()
    });
    assert_eq!(connection.host(), 3);
    assert_eq!([1, 2, 3].map(|host| fake.asked(host).0), [0, 0, 1], "the others are given up");
}

#[test]
fn connect_any_fails_if_no_host_has_name() {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let failed = std::thread::scope(|scope| {
        scope.spawn(|| answer(&fake, &[1, 2], &[(1, ULN_END_HOST_LOST), (2, ULN_END_NO_NAME)]));
        card.connect_any_timeout([1, 2], "store", b"", PATIENCE).unwrap_err()
    });
    let reasons = [EndReason::NoName, EndReason::HostLost];
    assert!(matches!(&failed, Error::Ended(end) if reasons.contains(&end.reason)), "{failed}");
    let none = card.connect_any_timeout([7], "store", b"", Duration::ZERO).unwrap_err();
    assert!(none.is_timed_out() && fake.asked(7) == (0, 1), "{none}");
    assert!(matches!(card.connect_any_timeout([], "store", b"", PATIENCE), Err(Error::Invalid(_))));
    assert!(card.connect_any_timeout([1], "", b"", PATIENCE).is_err());
}

#[test]
fn connect_any_skips_hosts_without_the_name() {
    let fake = Fake::default();
    let answers = [(0, ULN_END_NOT_LISTENING), (1, ULN_END_LISTENING), (2, ULN_END_NO_NAME)];
    fake.say(4, &answers);
    let card = Card::attached(fake.share());
    let connection = std::thread::scope(|scope| {
        // Host 2 is too old to answer. Host 3 never answers.
        scope.spawn(|| answer(&fake, &[1, 2], &[(2, ULN_END_NO_NAME), (1, 0)]));
        card.connect_any(card.hosts().unwrap(), "store", b"").unwrap()
    });
    assert_eq!(connection.host(), 1);
    assert_eq!([0, 1, 2, 3].map(|host| fake.asked(host).1), [0, 1, 1, 0]);
}

#[test]
fn connect_any_gives_up_on_silent_hosts() {
    let fake = Fake::default();
    fake.say(3, &[(0, ULN_END_NOT_LISTENING)]);
    let card = Card::attached(fake.share());
    let reason = |hosts: std::ops::Range<u32>| match card.connect_any(hosts, "store", b"").unwrap_err() {
        Error::Ended(end) => end.reason,
        other => panic!("{other}"),
    };
    // Without a time-out, both would wait forever.
    assert_eq!(reason(0..3), EndReason::NoName, "the answer of a present host counts");
    assert_eq!(reason(1..3), EndReason::HostLost);
}

#[test]
fn find_reports_hosts_and_missing_answers() {
    let fake = Fake::default();
    let answers =
        [(5, ULN_END_LISTENING), (1, ULN_END_LISTENING), (2, ULN_END_NO_NAME), (3, ULN_END_NOT_LISTENING)];
    fake.say(6, &[&answers[..], &[(4, ULN_END_HOST_LOST), (0, ULN_END_HOST_RESET)]].concat());
    let card = Card::attached(fake.share());
    let found = card.find("store").unwrap();
    assert_eq!((found.hosts, found.too_old, found.silent), (vec![1, 5], vec![2], vec![0, 4]));
    // A host without any answer is reported as silent at the end of the timeout.
    fake.say(3, &[(1, ULN_END_LISTENING)]);
    let found = card.find_timeout("store", Duration::from_millis(1)).unwrap();
    assert_eq!((found.hosts, found.silent), (vec![1], vec![0, 2]));
    // If the switch does not report its number of ports, all hosts that can have names are asked.
    fake.say(0, &[]);
    assert_eq!(card.find_timeout("store", Duration::ZERO).unwrap().silent.len(), 64);
    fake.say(1000, &[]);
    assert_eq!(card.hosts().unwrap(), 0..64);
    // A failure of this host is not an answer.
    fake.say(2, &[(0, ULN_END_NOT_LISTENING), (1, ULN_END_LINK_LOST)]);
    let failed = card.find("store").unwrap_err();
    assert!(matches!(&failed, Error::Ended(end) if end.reason == EndReason::LinkLost), "{failed}");
    assert!(card.find("").is_err() && card.find(&"x".repeat(65)).is_err());
}

/// Creates the managers of the two hosts. Host 1 and the other host answer that they have the name.
/// All others answer that they do not.
fn stream_hosts() -> [Manager; 2] {
    let fake = Fake::default();
    let mut answers: Vec<_> = (0..=OTHER).map(|host| (host, ULN_END_NOT_LISTENING)).collect();
    [1, OTHER].into_iter().for_each(|host| answers[host as usize].1 = ULN_END_LISTENING);
    fake.say(OTHER + 1, &answers);
    [fake.share(), fake.other()].map(|attachment| Manager::create(&Card::attached(attachment)).unwrap())
}

#[test]
fn stream_goes_to_the_first_host_that_accepts() {
    let [here, there] = stream_hosts();
    let listener = StreamListener::bind(&there, "store").unwrap();
    let asking =
        thread::spawn(move || StreamPair::connect_any_timeout(&here, 0..=OTHER, "store", PATIENCE).unwrap());
    // Host 1 is asked first. Here, the same listener serves both hosts.
    listener.request_timeout(PATIENCE).unwrap().reject("busy").unwrap();
    let accepted = listener.accept_timeout(PATIENCE).unwrap();
    let mut pair = asking.join().unwrap();
    pair.sender.send(b"hello").unwrap();
    pair.sender.flush().unwrap();
    let record = accepted.receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(record.to_vec(), b"hello");
}

#[test]
fn stream_fails_where_no_host_has_the_name() {
    let [here, _there] = stream_hosts();
    for hosts in [vec![0, 2], vec![]] {
        let failed =
            StreamPair::connect_any_timeout(&here, hosts, "store", Duration::from_millis(10)).unwrap_err();
        assert!(matches!(&failed, Error::Ended(end) if end.reason == EndReason::NoName), "{failed}");
    }
}
