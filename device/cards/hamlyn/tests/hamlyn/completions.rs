//! A sender may sleep until its requests are finished: the extension of section 2.3's sequence
//! number.

use crate::support::{Host, request};
use hamlyn_abi::family::command::HAMLYN_STATUS_BAD_VALUE;
use hamlyn_abi::family::sleep::{HAMLYN_ARMED_FIRED, HAMLYN_ARMED_YES, HAMLYN_PENDING_STRIDE};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::ports::Window;
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_test_host::Refusal;

const VECTOR: u32 = 3;
const TERMINUS: u32 = 2;

/// Offset of a word in the terminus control area, behind 64 windows and the words of 256 queues.
fn control(word: u32) -> u64 {
    64 * u64::from(HAMLYN_WINDOW_SIZE)
        + u64::from(HAMLYN_QUEUE_CONTROL_SIZE + TERMINUS * HAMLYN_TERMINUS_CONTROL_STRIDE + word)
}

/// A host whose terminus has an owner that can sleep.
fn host() -> Host {
    let mut host = Host::new(0, HamlynOptions::default());
    open(&mut host, HAMLYN_TERMINUS_WAKES, VECTOR).unwrap();
    host
}

fn open(host: &mut Host, flags: u32, vector: u32) -> Result<(), Refusal> {
    let status = host.page();
    let body = HamlynOpenTerminus { status, weight: 1, flags, vector, reserved: 0 };
    host.command(HAMLYN_COMMAND_OPEN_TERMINUS, TERMINUS, body)
}

/// The driver's part: says that its process sleeps until so many requests are finished.
fn arm(host: &Host, wanted: u32) {
    host.window.store(control(HAMLYN_TERMINUS_WANTED), wanted);
    host.window.store(control(HAMLYN_TERMINUS_ARMED), HAMLYN_ARMED_YES);
}

fn send(host: &mut Host) -> Vec<u16> {
    host.post(TERMINUS, request(0, 4), b"word");
    host.transmit_all();
    host.interrupts.0.borrow().clone()
}

#[test]
fn who_sleeps_until_a_request_is_finished_is_interrupted_then_and_once() {
    let mut host = host();
    let pending = 64 * u64::from(HAMLYN_WINDOW_SIZE)
        + u64::from(HAMLYN_QUEUE_CONTROL_PENDING + VECTOR * HAMLYN_PENDING_STRIDE);
    assert!(send(&mut host).is_empty(), "awake");
    arm(&host, 3);
    assert!(send(&mut host).is_empty(), "the second is not what it waits for");
    assert_eq!(send(&mut host), [VECTOR as u16], "the third is");
    assert_eq!(host.window.load(control(HAMLYN_TERMINUS_ARMED)), HAMLYN_ARMED_FIRED);
    assert_eq!(host.window.load(pending), 1);
    assert_eq!(send(&mut host).len(), 1, "fired already");
    arm(&host, 1);
    assert_eq!(send(&mut host).len(), 1, "one is pending");
    assert_eq!(host.counter(Statistic::InterruptsCoalesced), 1);
}

#[test]
fn a_request_that_is_refused_wakes_as_well() {
    let mut host = host();
    arm(&host, 1);
    let mut refused = request(0, 4);
    refused.flags = 1 << 31;
    host.post(TERMINUS, refused, b"word");
    host.transmit_all();
    assert_eq!(*host.interrupts.0.borrow(), [VECTOR as u16]);
}

#[test]
fn the_number_that_is_waited_for_wraps_as_the_requests_do() {
    let mut host = host();
    // Long past, as seen from the first request.
    arm(&host, u32::MAX);
    assert_eq!(send(&mut host), [VECTOR as u16]);
}

#[test]
fn an_owner_that_named_no_vector_is_not_looked_for() {
    let mut host = Host::new(0, HamlynOptions::default());
    // Nor is the field read: drivers of before did not know it.
    open(&mut host, 0, 0xffff).unwrap();
    arm(&host, 1);
    assert!(send(&mut host).is_empty());
}

#[test]
fn a_vector_must_be_one_that_wakes_somebody() {
    let mut host = Host::new(0, HamlynOptions::default());
    for vector in [0, 8, u32::MAX] {
        let refusal = open(&mut host, HAMLYN_TERMINUS_WAKES, vector).unwrap_err();
        assert_eq!(
            (refusal.status, refusal.value, refusal.limit),
            (HAMLYN_STATUS_BAD_VALUE, vector.into(), 7)
        );
    }
    assert!(open(&mut host, 1 << 2, 1).is_err(), "no such flag");
}

#[test]
fn who_opens_a_terminus_finds_it_disarmed() {
    let mut host = host();
    arm(&host, 1);
    host.command(HAMLYN_COMMAND_CLOSE_TERMINUS, TERMINUS, 0_u64).unwrap();
    open(&mut host, HAMLYN_TERMINUS_WAKES, VECTOR).unwrap();
    assert!(send(&mut host).is_empty());
}
