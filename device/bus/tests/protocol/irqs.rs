//! `DEVICE_GET_IRQ_INFO`, `DEVICE_SET_IRQS`, and the interrupts themselves.

use crate::harness::*;
use rustix::pipe::pipe;
use std::os::fd::{AsFd, OwnedFd};

const NONE: u32 = 1;
const BOOL: u32 = 2;
const EVENTFD: u32 = 4;
const MASK: u32 = 8;
const UNMASK: u32 = 16;
const TRIGGER: u32 = 32;
const MSIX: u32 = 2;

fn irq_set(flags: u32, index: u32, start: u32, count: u32) -> Vec<u8> {
    u32s(&[20, flags, index, start, count])
}

/// Returns a harness with interrupts enabled, and the client's eventfds, which the server also has.
fn with_eventfds() -> (Harness, Vec<OwnedFd>) {
    let mut harness = Harness::ready();
    harness.enable_bus_master();
    let events: Vec<_> = (0..VECTORS).map(|_| event()).collect();
    let fds: Vec<_> = events.iter().map(|event| event.as_fd()).collect();
    harness.call_with_fds(SET_IRQS, &irq_set(EVENTFD | TRIGGER, MSIX, 0, 4), &fds).ok();
    (harness, events)
}

fn ring(harness: &mut Harness, vector: u32) {
    harness.write(REGISTERS, RING, &vector.to_le_bytes()).ok();
}

fn signalled(events: &[OwnedFd]) -> Vec<u64> {
    events.iter().map(signals).collect()
}

fn pending(harness: &mut Harness) -> u8 {
    harness.read(MSIX_BAR, 4096, 8).ok()[16]
}

#[test]
fn only_msix_interrupts_exist() {
    let mut harness = Harness::ready();
    for index in 0..3 {
        let body = harness.call(GET_IRQ_INFO, &u32s(&[16, 0, index, 0])).ok();
        let wanted = if index == MSIX { [16, 3, index, 4] } else { [16, 0, index, 0] };
        assert_eq!(body, u32s(&wanted));
    }
    for index in [3, 4, u32::MAX] {
        assert_eq!(harness.call(GET_IRQ_INFO, &u32s(&[16, 0, index, 0])).errno(), EINVAL);
    }
    assert_eq!(harness.call(GET_IRQ_INFO, &u32s(&[15, 0, 2, 0])).errno(), EINVAL);
}

#[test]
fn an_interrupt_signals_its_eventfd() {
    let (mut harness, events) = with_eventfds();
    ring(&mut harness, 3);
    ring(&mut harness, 3);
    ring(&mut harness, 1);
    assert_eq!(signalled(&events), [0, 1, 0, 2]);
    ring(&mut harness, 4);
    assert_eq!(harness.function.errors, ["vector 4 is out of range (limit 4)"]);
}

#[test]
fn eventfd_range_can_be_set_and_removed() {
    let (mut harness, events) = with_eventfds();
    let fresh = [event(), event()];
    let fds = [fresh[0].as_fd(), fresh[1].as_fd()];
    harness.call_with_fds(SET_IRQS, &irq_set(EVENTFD | TRIGGER, MSIX, 1, 2), &fds).ok();
    harness.call(SET_IRQS, &irq_set(EVENTFD | TRIGGER, MSIX, 2, 1)).ok();
    (0..4).for_each(|vector| ring(&mut harness, vector));
    assert_eq!((signalled(&events), signalled(&fresh)), (vec![1, 0, 0, 1], vec![1, 0]));
    assert_eq!(pending(&mut harness), 0b100, "it waits for an eventfd");
    harness.call_with_fds(SET_IRQS, &irq_set(EVENTFD | TRIGGER, MSIX, 2, 1), &[events[2].as_fd()]).ok();
    assert_eq!((signalled(&events), pending(&mut harness)), (vec![0, 0, 1, 0], 0));
}

#[test]
fn all_interrupts_can_be_disabled() {
    let (mut harness, events) = with_eventfds();
    harness.call(SET_IRQS, &irq_set(NONE | TRIGGER, MSIX, 0, 0)).ok();
    (0..4).for_each(|vector| ring(&mut harness, vector));
    assert_eq!(signalled(&events), [0; 4]);
    for index in [0, 1] {
        harness.call(SET_IRQS, &irq_set(NONE | TRIGGER, index, 0, 0)).ok();
    }
}

#[test]
fn masks_defer_interrupts() {
    let (mut harness, events) = with_eventfds();
    harness.call(SET_IRQS, &irq_set(NONE | MASK, MSIX, 0, 2)).ok();
    harness.call(SET_IRQS, &[irq_set(BOOL | MASK, MSIX, 2, 2), vec![0, 1]].concat()).ok();
    (0..4).for_each(|vector| ring(&mut harness, vector));
    assert_eq!((signalled(&events), pending(&mut harness)), (vec![0, 0, 1, 0], 0b1011));
    harness.call(SET_IRQS, &irq_set(NONE | UNMASK, MSIX, 0, 1)).ok();
    harness.call(SET_IRQS, &[irq_set(BOOL | UNMASK, MSIX, 0, 4), vec![0, 0, 1, 1]].concat()).ok();
    assert_eq!((signalled(&events), pending(&mut harness)), (vec![1, 0, 0, 1], 0b10));
}

#[test]
fn the_client_can_trigger_interrupts() {
    let (mut harness, events) = with_eventfds();
    harness.call(SET_IRQS, &irq_set(NONE | TRIGGER, MSIX, 0, 2)).ok();
    harness.call(SET_IRQS, &[irq_set(BOOL | TRIGGER, MSIX, 1, 3), vec![1, 0, 1]].concat()).ok();
    assert_eq!(signalled(&events), [1, 2, 0, 1]);
}

#[test]
fn masking_signals_the_eventfds_for_it() {
    let (mut harness, _events) = with_eventfds();
    let (masked, unmasked) = (event(), event());
    harness.call_with_fds(SET_IRQS, &irq_set(EVENTFD | MASK, MSIX, 0, 1), &[masked.as_fd()]).ok();
    harness.call_with_fds(SET_IRQS, &irq_set(EVENTFD | UNMASK, MSIX, 0, 1), &[unmasked.as_fd()]).ok();
    harness.call(SET_IRQS, &irq_set(NONE | MASK, MSIX, 0, 1)).ok();
    assert_eq!((signals(&masked), signals(&unmasked)), (1, 0));
    harness.call(SET_IRQS, &irq_set(NONE | UNMASK, MSIX, 0, 1)).ok();
    assert_eq!((signals(&masked), signals(&unmasked)), (0, 1));
}

#[test]
fn bus_mastering_and_function_mask_defer_interrupts() {
    let (mut harness, events) = with_eventfds();
    harness.write(CONFIG, 4, &[2, 0]).ok();
    ring(&mut harness, 0);
    assert_eq!((signalled(&events), pending(&mut harness)), (vec![0; 4], 1));
    harness.enable_bus_master();
    assert_eq!((signalled(&events), pending(&mut harness)), (vec![1, 0, 0, 0], 0));
    let msix = msix_capability(&mut harness);
    harness.write(CONFIG, msix + 2, &[0, 0xc0]).ok();
    ring(&mut harness, 1);
    assert_eq!((signalled(&events), pending(&mut harness)), (vec![0; 4], 2));
    harness.write(CONFIG, msix + 2, &[0, 0x80]).ok();
    assert_eq!((signalled(&events), pending(&mut harness)), (vec![0, 1, 0, 0], 0));
}

/// Walks the capabilities as a driver does.
fn msix_capability(harness: &mut Harness) -> u64 {
    let config = harness.read(CONFIG, 0, 256).ok().split_off(16);
    let mut at = config[0x34];
    while config[usize::from(at)] != 0x11 {
        at = config[usize::from(at) + 1];
        assert_ne!(at, 0, "no MSI-X capability");
    }
    let control = u16::from_le_bytes([config[usize::from(at) + 2], config[usize::from(at) + 3]]);
    assert_eq!(control & 0x7ff, VECTORS - 1);
    assert_eq!((u32_at(&config, usize::from(at) + 4), u32_at(&config, usize::from(at) + 8)), (4, 4096 | 4));
    u64::from(at)
}

#[test]
fn client_keeps_the_msix_table() {
    let mut harness = Harness::ready();
    harness.write(MSIX_BAR, 0, &[0xff; 8]).ok();
    assert_eq!(harness.read(MSIX_BAR, 0, 8).ok()[16..], [0; 8]);
    harness.write(MSIX_BAR, 4096, &[0xff; 8]).ok();
    assert_eq!(pending(&mut harness), 0);
    assert_eq!(harness.read(MSIX_BAR, 8184, 8).ok()[16..], [0; 8]);
}

#[test]
fn wrong_requests_are_refused_and_change_nothing() {
    let (mut harness, events) = with_eventfds();
    let fd = [events[0].as_fd()];
    let mut refuse = |body: Vec<u8>, fds: &[_]| {
        assert_eq!(harness.call_with_fds(SET_IRQS, &body, fds).errno(), EINVAL, "{body:?}")
    };
    refuse(irq_set(EVENTFD | TRIGGER, MSIX, 4, 1), &fd);
    refuse(irq_set(EVENTFD | TRIGGER, MSIX, 0, 5), &fd);
    refuse(irq_set(EVENTFD | TRIGGER, MSIX, u32::MAX, 1), &fd);
    refuse(irq_set(EVENTFD | TRIGGER, MSIX, 1, u32::MAX), &fd);
    refuse(irq_set(EVENTFD | TRIGGER, 0, 0, 1), &fd);
    refuse(irq_set(EVENTFD | TRIGGER, 3, 0, 1), &fd);
    refuse(irq_set(NONE | TRIGGER, u32::MAX, 0, 0), &[]);
    refuse(irq_set(EVENTFD | TRIGGER, MSIX, 0, 2), &fd);
    refuse(irq_set(EVENTFD, MSIX, 0, 1), &fd);
    refuse(irq_set(TRIGGER, MSIX, 0, 1), &[]);
    refuse(irq_set(NONE | BOOL | TRIGGER, MSIX, 0, 1), &[]);
    refuse(irq_set(NONE | MASK | UNMASK, MSIX, 0, 1), &[]);
    refuse(irq_set(NONE | MASK | 64, MSIX, 0, 1), &[]);
    refuse(irq_set(BOOL | MASK, MSIX, 0, 1), &[]);
    refuse([irq_set(BOOL | MASK, MSIX, 0, 1), vec![1, 1]].concat(), &[]);
    refuse(irq_set(EVENTFD | TRIGGER, MSIX, 0, 0), &[]);
    let (_reader, writer) = pipe().unwrap();
    refuse(irq_set(EVENTFD | TRIGGER, MSIX, 0, 1), &[writer.as_fd()]);
    let mut short = irq_set(NONE | TRIGGER, MSIX, 0, 0);
    short[0] = 19;
    refuse(short, &[]);
    (0..4).for_each(|vector| ring(&mut harness, vector));
    assert_eq!(signalled(&events), [1; 4]);
}

#[test]
fn disconnect_drops_the_clients_eventfds() {
    let (mut harness, events) = with_eventfds();
    harness.reconnect();
    harness.negotiate();
    harness.enable_bus_master();
    ring(&mut harness, 0);
    assert_eq!(signalled(&events), [0; 4]);
}
