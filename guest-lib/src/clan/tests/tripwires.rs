//! Tests of Tripwires and Tripsets.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::super::fake::cards;
use super::super::{Rights, Tripset, TripwireError, Watch};
use super::{HASTE, PATIENCE};
use crate::core::polling::Polling;
use crate::error::ErrorKind;

#[test]
fn tripwire_fires_for_its_range_and_counts() {
    let (_net, [one, two]) = cards();
    let (endpoint, aperture) = (one.endpoint().unwrap(), one.aperture(4096, Rights::Write).unwrap());
    let mut watched = endpoint.tripwire(&Watch::local(&aperture, 8..16).unwrap()).unwrap();
    let other = endpoint.tripwire(&Watch::local(&aperture, 16..24).unwrap()).unwrap();
    let sender = two.endpoint().unwrap();
    let window = sender.map(&aperture.descriptor().unwrap(), 0, 4096).unwrap();
    window.store_u32(12, 7).unwrap();
    assert!(watched.wait_timeout(PATIENCE).unwrap() >= 1);
    assert_eq!((watched.test(), other.test()), (0, 0));
    assert!(watched.wait_timeout(HASTE).is_err_and(|error| error.is_timed_out()), "it is cleared");
    window.store_u32(8, 7).unwrap();
    while watched.test() == 0 {}
    assert!(watched.count() >= 2 && watched.clear() >= 1 && watched.clear() == 0);
}

#[test]
fn tripwire_between_check_and_sleep_wakes() {
    let (net, [one]) = cards();
    let (endpoint, aperture) = (one.endpoint().unwrap(), one.aperture(64, Rights::Write).unwrap());
    let mut tripwire = endpoint.tripwire(&Watch::local(&aperture, 0..8).unwrap()).unwrap();
    endpoint.set_polling(Polling::NEVER);
    net.stop();
    net.step();
    let looks = Cell::new(0);
    let found = tripwire.wait_until_timeout(PATIENCE, || {
        looks.set(looks.get() + 1);
        let found = aperture.load_u64(0)?;
        // After each look but the last, the flag is set and the card reports it.
        aperture.store_u64(0, looks.get())?;
        net.step();
        Ok(Some(found).filter(|found| *found == 4))
    });
    assert_eq!(found.unwrap(), 4);
    assert_eq!(net.sleeps.load(Ordering::Relaxed), 0, "a sleep was not ended by what fired before it");
    // Dropping the Tripwire disables it, which needs the card's answer.
    std::thread::scope(|scope| {
        let dropped = scope.spawn(|| drop(tripwire));
        while !dropped.is_finished() {
            net.step();
        }
    });
}

#[test]
fn one_shot_fires_once_and_disabled_never() {
    let (_net, [one]) = cards();
    let (endpoint, aperture) = (one.endpoint().unwrap(), one.aperture(64, Rights::Write).unwrap());
    let mut once = endpoint.tripwire(&Watch::local(&aperture, 0..8).unwrap().once()).unwrap();
    let mut always = endpoint.tripwire(&Watch::local(&aperture, 0..8).unwrap()).unwrap();
    aperture.store_u64(0, 1).unwrap();
    assert_eq!(always.wait_timeout(PATIENCE).unwrap(), 1);
    aperture.store_u64(0, 2).unwrap();
    assert_eq!(always.wait_timeout(PATIENCE).unwrap(), 1);
    assert_eq!(once.wait_timeout(PATIENCE).unwrap(), 1);
    once.enable().unwrap();
    always.disable().unwrap();
    aperture.store_u64(0, 3).unwrap();
    assert_eq!((once.wait_timeout(PATIENCE).unwrap(), always.test()), (1, 0));
    always.enable().unwrap();
    aperture.store_u64(0, 4).unwrap();
    assert_eq!((always.wait_timeout(PATIENCE).unwrap(), once.test()), (1, 0));
}

#[test]
fn card_answers_map_to_errors() {
    let (_net, [one, two]) = cards();
    let endpoint = one.endpoint().unwrap();
    let (own, foreign) = (one.aperture(64, Rights::Write).unwrap(), two.aperture(64, Rights::Write).unwrap());
    let refused = endpoint.tripwire(&Watch::local(&foreign, 0..8).unwrap()).unwrap_err();
    assert!(refused.of() == Some(&TripwireError::NoAperture), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(Watch::local(&own, 60..68).is_err() && Watch::local(&own, 8..8).is_err());
    let reversed = std::ops::Range { start: 9, end: 8 };
    assert!(Watch::local(&own, reversed).is_err());
    assert!(Watch::remote(&foreign.descriptor().unwrap(), u64::MAX - 7..u64::MAX).is_err());
    let remote = Watch::remote(&foreign.descriptor().unwrap(), 0..64).unwrap();
    endpoint.tripwire(&remote).unwrap();
}

#[test]
fn tripwires_are_limited_and_reused_after_drop() {
    let (_net, [one]) = cards();
    let endpoint = one.endpoint_builder().tripwires(2).open().unwrap();
    let aperture = one.aperture(64, Rights::Write).unwrap();
    let watch = Watch::local(&aperture, 0..8).unwrap();
    let (first, second) = (endpoint.tripwire(&watch).unwrap(), endpoint.tripwire(&watch).unwrap());
    let none_left = endpoint.tripwire(&watch).unwrap_err();
    assert!(none_left.is_exhausted(), "{none_left}");
    aperture.store_u64(0, 1).unwrap();
    while first.test() == 0 {}
    let number = first.number();
    drop(first);
    let again = endpoint.tripwire(&watch).unwrap();
    assert_eq!((again.number(), again.test()), (number, 0), "what its place fired for before is not its own");
    drop((again, second));
    assert!(one.endpoint_builder().tripwires(33).open().is_err());
}

#[test]
fn any_tripwire_of_tripset_ends_wait() {
    let (_net, [one]) = cards();
    let (endpoint, aperture) = (one.endpoint().unwrap(), one.aperture(64, Rights::Write).unwrap());
    let words = (0..4)
        .map(|word| endpoint.tripwire(&Watch::local(&aperture, word * 8..word * 8 + 8).unwrap()).unwrap());
    let mut set = Tripset::new(words).unwrap();
    assert!(set.wait_timeout(HASTE).is_err_and(|error| error.is_timed_out()));
    for word in [2, 0, 3] {
        aperture.store_u64(word * 8, 1).unwrap();
        assert_eq!(set.wait_timeout(PATIENCE).unwrap(), [word]);
    }
    assert!(set.clear().is_empty() && set.tripwires().len() == 4);
    let stranger = one.endpoint().unwrap().tripwire(&Watch::local(&aperture, 0..8).unwrap()).unwrap();
    assert!(Tripset::new(set.into_tripwires().into_iter().chain([stranger])).is_err());
    assert!(Tripset::new([]).is_err());
}
