//! Slots between operating systems (section 6.3): only a privileged terminus of the one host may
//! write to them.

use crate::support::{KEY, Two, request};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::request::{HAMLYN_REQUEST_FETCH, HAMLYN_REQUEST_SILENT, HamlynFetch, HamlynRequest};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card_hamlyn::HamlynOptions;
use zerocopy::IntoBytes;

const WELL_KNOWN: u32 = 9;
/// The sender's termini: the operating system's, and a process'.
const PRIVILEGED: u32 = 1;
const PROCESS: u32 = 0;

/// A receiver whose slot 9 is for the operating system of `host`; the sender is host 0.
fn two(host: u32, flags: u32) -> Two {
    let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_NORMAL);
    let status = two.sender.page();
    let body =
        HamlynOpenTerminus { status, weight: 1, flags: HAMLYN_TERMINUS_PRIVILEGED, ..Default::default() };
    two.sender.command(HAMLYN_COMMAND_OPEN_TERMINUS, PRIVILEGED, body).unwrap();
    let slot = HamlynOpenSlot {
        area: two.area.abi,
        metadata: two.metadata.abi,
        key: KEY,
        metadata_entries: 4,
        queue: 0,
        flags: HAMLYN_SLOT_PRIVILEGED | flags,
        source: host,
        ..Default::default()
    };
    two.receiver.open_slot(WELL_KNOWN, slot);
    two
}

fn refusals(two: &mut Two, terminus: u32, request: HamlynRequest, body: &[u8]) -> u64 {
    two.sender.post(terminus, HamlynRequest { slot: WELL_KNOWN, ..request }, body);
    two.carry();
    two.receiver.counter(Statistic::RefusedPrivilege)
}

#[test]
fn the_operating_system_of_that_host_may_write() {
    let mut two = two(0, 0);
    assert_eq!(refusals(&mut two, PRIVILEGED, request(0, 4), b"data"), 0);
    assert_eq!(two.receiver.receive(0).map(|entry| entry.slot), Some(WELL_KNOWN));
}

#[test]
fn a_process_may_not_even_with_the_key() {
    let mut two = two(0, 0);
    let before = two.receiver.memory_image();
    assert_eq!(refusals(&mut two, PROCESS, request(0, 4), b"data"), 1);
    assert!(two.receiver.memory_image() == before);
}

#[test]
fn the_operating_system_may_not_unless_it_tells_of_it() {
    let mut two = two(0, 0);
    let silent = HamlynRequest { flags: HAMLYN_REQUEST_SILENT, ..request(0, 4) };
    assert_eq!(refusals(&mut two, PRIVILEGED, silent, b"data"), 1);
}

#[test]
fn the_operating_system_of_another_host_may_not() {
    let mut two = two(2, 0);
    assert_eq!(refusals(&mut two, PRIVILEGED, request(0, 4), b"data"), 1);
    assert!(two.receiver.receive(0).is_none());
}

#[test]
fn privilege_takes_the_place_of_no_other_check_and_forbids_nothing_else() {
    let mut two = two(0, 0);
    assert_eq!(refusals(&mut two, PRIVILEGED, HamlynRequest { key: !KEY, ..request(0, 4) }, b"data"), 0);
    assert_eq!(two.receiver.counter(Statistic::RefusedKey), 1);
    // An ordinary slot takes what a privileged terminus sends.
    two.sender.post(PRIVILEGED, request(0, 4), b"data");
    two.carry();
    assert!(two.receiver.receive(0).is_some());
}

#[test]
fn a_fetch_and_op_is_held_to_the_same() {
    let mut two = two(0, HAMLYN_SLOT_FETCH);
    let fetch = HamlynRequest { flags: HAMLYN_REQUEST_FETCH, operation: 1, ..request(8, 16) };
    let body = HamlynFetch { operand: 1, compare: 0 };
    assert_eq!(refusals(&mut two, PROCESS, fetch, body.as_bytes()), 1);
    assert_eq!(two.receiver.counter(Statistic::Fetches), 0);
    assert_eq!(two.receiver.counter(Statistic::RefusedFetchAddress), 0);
    // The area starts at byte 100 of its page, so this is as far as it gets.
    assert_eq!(refusals(&mut two, PRIVILEGED, fetch, body.as_bytes()), 1);
    assert_eq!(two.receiver.counter(Statistic::RefusedFetchAddress), 1);
}
