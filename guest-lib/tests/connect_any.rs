//! A name on whichever host has it (section 6.3).

#[allow(dead_code)]
mod fake;

use std::time::Duration;

use fake::Fake;
use hamlyn::{Card, EndReason, Error};
use hamlyn_abi::uapi::{HAMLYN_END_HOST_LOST, HAMLYN_END_NO_NAME};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

/// Answers once all of these hosts were asked.
fn answer(fake: &Fake, hosts: &[u32], answers: &[(u32, u32)]) {
    while hosts.iter().any(|host| fake.asked(*host).1 == 0) {
        std::thread::yield_now();
    }
    answers.iter().for_each(|(host, reason)| fake.answer(*host, *reason));
}

#[test]
fn the_first_that_accepts_is_taken_and_absent_ones_are_not_waited_for() {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let connection = std::thread::scope(|scope| {
        scope.spawn(|| answer(&fake, &[1, 2, 3], &[(1, HAMLYN_END_NO_NAME), (3, 0)]));
        // Host 2 never says anything.
        card.connect_any(1..=3, "store", b"hello", PATIENCE).unwrap()
    });
    assert_eq!(connection.host(), 3);
    assert_eq!([1, 2, 3].map(|host| fake.asked(host).0), [0, 0, 1], "the others are given up");
}

#[test]
fn if_nobody_has_the_name_the_last_answer_says_so() {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let failed = std::thread::scope(|scope| {
        scope.spawn(|| answer(&fake, &[1, 2], &[(1, HAMLYN_END_HOST_LOST), (2, HAMLYN_END_NO_NAME)]));
        card.connect_any([1, 2], "store", b"", PATIENCE).unwrap_err()
    });
    let reasons = [EndReason::NoName, EndReason::HostLost];
    assert!(matches!(&failed, Error::Ended(end) if reasons.contains(&end.reason)), "{failed}");
    let none = card.connect_any([7], "store", b"", Some(Duration::ZERO)).unwrap_err();
    assert!(none.is_timed_out() && fake.asked(7) == (0, 1), "{none}");
    assert!(card.connect_any([], "store", b"", PATIENCE).is_err());
    assert!(card.connect_any([1], "", b"", PATIENCE).is_err());
}
