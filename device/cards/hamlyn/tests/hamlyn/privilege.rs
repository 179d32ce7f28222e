//! Slots between operating systems (section 6.3): only a privileged terminus of one given host may
//! write to them.

use crate::support::{KEY, Two, request};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::request::{HAMLYN_REQUEST_FETCH, HAMLYN_REQUEST_SILENT, HamlynFetch, HamlynRequest};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card_hamlyn::HamlynOptions;
use zerocopy::IntoBytes;

const WELL_KNOWN: u32 = 9;
/// The sender's termini: one of the operating system and one of a process.
const PRIVILEGED: u32 = 1;
const PROCESS: u32 = 0;

/// Returns a receiver whose slot 9 is for the operating system of `host`. The sender is host 0.
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
fn privileged_terminus_of_named_host_may_write() {
    let mut two = two(0, 0);
    assert_eq!(refusals(&mut two, PRIVILEGED, request(0, 4), b"data"), 0);
    assert_eq!(two.receiver.receive(0).map(|entry| entry.slot), Some(WELL_KNOWN));
}

#[test]
fn process_is_refused_even_with_key() {
    let mut two = two(0, 0);
    let before = two.receiver.memory_image();
    assert_eq!(refusals(&mut two, PROCESS, request(0, 4), b"data"), 1);
    assert!(two.receiver.memory_image() == before);
}

#[test]
fn privileged_terminus_may_not_write_silently() {
    let mut two = two(0, 0);
    let silent = HamlynRequest { flags: HAMLYN_REQUEST_SILENT, ..request(0, 4) };
    assert_eq!(refusals(&mut two, PRIVILEGED, silent, b"data"), 1);
}

#[test]
fn privileged_terminus_of_other_host_is_refused() {
    let mut two = two(2, 0);
    assert_eq!(refusals(&mut two, PRIVILEGED, request(0, 4), b"data"), 1);
    assert!(two.receiver.receive(0).is_none());
}

#[test]
fn privilege_replaces_no_check_and_allows_ordinary_slots() {
    let mut two = two(0, 0);
    assert_eq!(refusals(&mut two, PRIVILEGED, HamlynRequest { key: !KEY, ..request(0, 4) }, b"data"), 0);
    assert_eq!(two.receiver.counter(Statistic::RefusedKey), 1);
    // An ordinary slot accepts messages of a privileged terminus.
    two.sender.post(PRIVILEGED, request(0, 4), b"data");
    two.carry();
    assert!(two.receiver.receive(0).is_some());
}

#[test]
fn fetch_and_op_needs_the_same_privilege() {
    let mut two = two(0, HAMLYN_SLOT_FETCH);
    let fetch = HamlynRequest { flags: HAMLYN_REQUEST_FETCH, operation: 1, ..request(8, 16) };
    let body = HamlynFetch { operand: 1, compare: 0 };
    assert_eq!(refusals(&mut two, PROCESS, fetch, body.as_bytes()), 1);
    assert_eq!(two.receiver.counter(Statistic::Fetches), 0);
    assert_eq!(two.receiver.counter(Statistic::RefusedFetchAddress), 0);
    // The area starts at byte 100 of its page, so the request fails at its alignment.
    assert_eq!(refusals(&mut two, PRIVILEGED, fetch, body.as_bytes()), 1);
    assert_eq!(two.receiver.counter(Statistic::RefusedFetchAddress), 1);
}
