//! A sender may sleep until its requests are finished: an extension of section 2.3's sequence
//! number.

use crate::support::{Host, request};
use hamlyn_abi::family::command::ULN_STATUS_BAD_VALUE;
use hamlyn_abi::family::sleep::{ULN_ARMED_FIRED, ULN_ARMED_YES, ULN_PENDING_STRIDE};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_abi::hamlyn::window::*;
use hamlyn_card::ports::Window;
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_test_host::Refusal;

const VECTOR: u32 = 3;
const TERMINUS: u32 = 2;

/// Returns the offset of a word in the terminus control area, behind 64 windows and the words of
/// 256 queues.
fn control(word: u32) -> u64 {
    64 * u64::from(HAMLYN_WINDOW_SIZE)
        + u64::from(HAMLYN_QUEUE_CONTROL_SIZE + TERMINUS * HAMLYN_TERMINUS_CONTROL_STRIDE + word)
}

/// Returns a host with a terminus whose owner can sleep.
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

/// Does the driver's part: reports that its process sleeps until `wanted` requests are finished.
fn arm(host: &Host, wanted: u32) {
    host.window.store(control(HAMLYN_TERMINUS_WANTED), wanted);
    host.window.store(control(HAMLYN_TERMINUS_ARMED), ULN_ARMED_YES);
}

fn send(host: &mut Host) -> Vec<u16> {
    host.post(TERMINUS, request(0, 4), b"word");
    host.transmit_all();
    host.interrupts.0.borrow().clone()
}

#[test]
fn sender_is_interrupted_once_when_request_finishes() {
    let mut host = host();
    let pending = 64 * u64::from(HAMLYN_WINDOW_SIZE)
        + u64::from(HAMLYN_QUEUE_CONTROL_PENDING + VECTOR * ULN_PENDING_STRIDE);
    assert!(send(&mut host).is_empty(), "awake");
    arm(&host, 3);
    assert!(send(&mut host).is_empty(), "the second is not what it waits for");
    assert_eq!(send(&mut host), [VECTOR as u16], "the third is");
    assert_eq!(host.window.load(control(HAMLYN_TERMINUS_ARMED)), ULN_ARMED_FIRED);
    assert_eq!(host.window.load(pending), 1);
    assert_eq!(send(&mut host).len(), 1, "fired already");
    arm(&host, 1);
    assert_eq!(send(&mut host).len(), 1, "one is pending");
    assert_eq!(host.counter(Statistic::InterruptsCoalesced), 1);
}

#[test]
fn refused_request_wakes_its_sender() {
    let mut host = host();
    arm(&host, 1);
    let mut refused = request(0, 4);
    refused.flags = 1 << 31;
    host.post(TERMINUS, refused, b"word");
    host.transmit_all();
    assert_eq!(*host.interrupts.0.borrow(), [VECTOR as u16]);
}

#[test]
fn awaited_request_number_wraps_around() {
    let mut host = host();
    // Long past, as seen from the first request.
    arm(&host, u32::MAX);
    assert_eq!(send(&mut host), [VECTOR as u16]);
}

#[test]
fn owner_without_vector_is_not_woken() {
    let mut host = Host::new(0, HamlynOptions::default());
    // The field is not read either, because older drivers did not set it.
    open(&mut host, 0, 0xffff).unwrap();
    arm(&host, 1);
    assert!(send(&mut host).is_empty());
}

#[test]
fn invalid_vector_is_refused() {
    let mut host = Host::new(0, HamlynOptions::default());
    for vector in [0, 8, u32::MAX] {
        let refusal = open(&mut host, HAMLYN_TERMINUS_WAKES, vector).unwrap_err();
        assert_eq!((refusal.status, refusal.value, refusal.limit), (ULN_STATUS_BAD_VALUE, vector.into(), 7));
    }
    assert!(open(&mut host, 1 << 2, 1).is_err(), "no such flag");
}

#[test]
fn opened_terminus_is_disarmed() {
    let mut host = host();
    arm(&host, 1);
    host.command(HAMLYN_COMMAND_CLOSE_TERMINUS, TERMINUS, 0_u64).unwrap();
    open(&mut host, HAMLYN_TERMINUS_WAKES, VECTOR).unwrap();
    assert!(send(&mut host).is_empty());
}
