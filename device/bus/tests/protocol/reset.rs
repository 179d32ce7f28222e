//! `DEVICE_RESET`, function-level reset, and a client's disconnect.

use crate::harness::*;
use hamlyn_bus::ResetCause;
use std::os::fd::AsFd;

const EXPRESS: u64 = 0x40;

fn busy() -> (Harness, std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
    let mut harness = Harness::ready();
    let (memory, event) = (memfd(4096), event());
    harness.map(3, 0, 0, 4096, &[memory.as_fd()]).ok();
    harness.call_with_fds(SET_IRQS, &u32s(&[20, 4 | 32, 2, 0, 1]), &[event.as_fd()]).ok();
    harness.enable_bus_master();
    harness.write(CONFIG, 0x10, &0xfe00_0000_u32.to_le_bytes()).ok();
    harness.take_events();
    (harness, memory, event)
}

/// Checks that the driver starts again after a reset, with the client's memory and eventfds, which
/// are still there.
fn starts_anew(harness: &mut Harness, event: &std::os::fd::OwnedFd) {
    assert!(!harness.server.bus().bus_master());
    assert_eq!(harness.read(CONFIG, 0x10, 4).ok()[16..], [0; 4]);
    harness.write(REGISTERS, RING, &[0; 4]).ok();
    assert_eq!(signals(event), 0);
    harness.enable_bus_master();
    assert_eq!(signals(event), 1);
    assert_eq!(harness.server.bus().dma.read_u32(0), Ok(0));
}

#[test]
fn a_device_reset_resets_the_function() {
    let (mut harness, _memory, event) = busy();
    assert!(harness.call(DEVICE_RESET, &[]).ok().is_empty());
    assert_eq!(harness.take_events(), [Event::Reset(ResetCause::DeviceReset)]);
    starts_anew(&mut harness, &event);
    assert_eq!(harness.server.counters().resets, 1);
}

#[test]
fn a_function_level_reset_does_the_same() {
    let (mut harness, _memory, event) = busy();
    let capabilities = harness.read(CONFIG, EXPRESS + 4, 4).ok();
    assert_ne!(u32_at(&capabilities, 16) & 1 << 28, 0, "the function says that it can");
    harness.write(CONFIG, EXPRESS + 8, &[0, 0x80]).ok();
    assert_eq!(harness.take_events(), [Event::Reset(ResetCause::FunctionLevel)]);
    assert_eq!(harness.read(CONFIG, EXPRESS + 8, 2).ok()[16..], [0, 0], "the bit reads as zero");
    starts_anew(&mut harness, &event);
}

#[test]
fn reset_clears_pending_interrupts() {
    let (mut harness, _memory, event) = busy();
    harness.write(CONFIG, 4, &[0, 0]).ok();
    harness.write(REGISTERS, RING, &[0; 4]).ok();
    harness.call(DEVICE_RESET, &[]).ok();
    harness.enable_bus_master();
    assert_eq!(signals(&event), 0);
}

#[test]
fn disconnect_drops_memory_and_resets_the_function() {
    let (mut harness, _memory, _event) = busy();
    harness.reconnect();
    assert_eq!(harness.take_events(), [Event::Reset(ResetCause::ClientLeft)]);
    assert_eq!(harness.server.bus().dma.map_count(), 0);
    harness.negotiate();
    assert_eq!(harness.read(CONFIG, 4, 2).ok()[16..], [0, 0]);
}
